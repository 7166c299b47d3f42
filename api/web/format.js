// Words and numbers for people. Pure; the names of parameters contain the unit.

/** 64 bits as ZooKeeper prints a zxid or a session. @param {import("./fold.js").Id64} zxid */
export function hex(zxid) {
  if (typeof zxid === "string" && zxid.startsWith("0x")) return zxid;
  return `0x${BigInt.asUintN(64, BigInt(zxid)).toString(16)}`;
}

/** @param {number} value */
export function count(value) {
  return value.toLocaleString("en-GB");
}

/** A number of bytes in a readable unit. @param {number} value */
export function bytes(value) {
  if (value < 1024) return `${count(Math.round(value))} B`;
  const unit = Math.min(4, Math.floor(Math.log2(value) / 10));
  const scaled = value / 1024 ** unit;
  return `${scaled < 10 ? scaled.toFixed(1) : count(Math.round(scaled))} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

/** A duration in a readable unit. @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  const [s, min, h] = [Math.floor(ms / 1000) % 60, Math.floor(ms / 60_000) % 60, Math.floor(ms / 3_600_000)];
  if (h === 0) return `${min} min ${String(s).padStart(2, "0")} s`;
  return h < 48 ? `${h} h ${String(min).padStart(2, "0")} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

/** An age in tenths of a second, so that it does not flicker, or that it is unknown. @param {number | null} ms */
export function age(ms) {
  if (ms === null) return "no report yet";
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

/** The time of day, to the millisecond. @param {number} us */
export function clock(us) {
  const at = new Date(us / 1000);
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const ms = String(at.getMilliseconds()).padStart(3, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${ms}`;
}

/** The time of day, to the second. @param {number} us */
export function clockShort(us) {
  return clock(us).slice(0, 8);
}

/** A controller term: the broker and its controller epoch. @param {number} id @param {number} epoch */
export function controllerTerm(id, epoch) {
  return `${id < 0 ? "none" : `broker ${id}`} · epoch ${epoch}`;
}

/** A term of the ZAB leader: the peer and its epoch. @param {number} id @param {number} epoch */
export function leaderTerm(id, epoch) {
  return `${id < 0 ? "none" : `peer ${id}`} · epoch ${epoch}`;
}

/** A controller term as `id@epoch`, for narrow places that explain it in a tooltip. @param {number} id @param {number} epoch */
export function shortTerm(id, epoch) {
  return `${id < 0 ? "none" : id}@${epoch}`;
}

/** That a status is the last known one, and its age. @param {{age_ms: number}} word */
export function lastKnown({ age_ms }) {
  return `last known, ${duration(age_ms)} ago`;
}

/** An identifier such as `session_closed` as words. @param {string | null} name */
export function words(name) {
  return (name ?? "").replaceAll("_", " ");
}

/** @param {number} n @param {string} one @param {string} many */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** "a", "a and b", "a, b and c". @param {string[]} parts */
export function list(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}
