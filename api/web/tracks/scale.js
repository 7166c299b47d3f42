// The clock of the tracks: the visible range, the position of a moment in it, and the ticks of the axis. Pure.

/**
 * @typedef {{from_us: number, to_us: number}} Stretch
 * @typedef {{at_us: number, text: string}} Tick
 */

export const SHORTEST_US = 200;
const STEPS_US = [1, 2, 5].flatMap((n) => [1, 10, 100, 1e3, 1e4, 1e5, 1e6].map((unit) => n * unit)).sort((a, b) => a - b)
  .concat([15e6, 30e6, 60e6, 120e6, 300e6, 600e6, 900e6, 1800e6, 3600e6, 7200e6, 3 * 3600e6, 6 * 3600e6, 12 * 3600e6, 24 * 3600e6])
  .sort((a, b) => a - b);

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** The position of a moment, in pixels. @param {Stretch & {width: number, gutter: number}} of @param {number} at_us */
export const xOf = ({ from_us, to_us, width, gutter }, at_us) => gutter + ((at_us - from_us) / (to_us - from_us)) * (width - gutter);

/** The moment at a position. @param {Stretch & {width: number, gutter: number}} of @param {number} x */
export const timeAt = ({ from_us, to_us, width, gutter }, x) => from_us + ((x - gutter) / (width - gutter)) * (to_us - from_us);

/** Zoom in or out, with one moment staying in place. @param {Stretch} of @param {number} factor @param {number} fixed_us @returns {Stretch} */
export function zoomed({ from_us, to_us }, factor, fixed_us) {
  const width = Math.max(SHORTEST_US, (to_us - from_us) * factor);
  const part = (fixed_us - from_us) / (to_us - from_us);
  return { from_us: fixed_us - width * part, to_us: fixed_us + width * (1 - part) };
}

/** Limit a range to the available one. @param {Stretch} of @param {Stretch} all @returns {Stretch} */
export function within({ from_us, to_us }, all) {
  const width = Math.min(to_us - from_us, all.to_us - all.from_us);
  const begin = Math.min(Math.max(from_us, all.from_us), all.to_us - width);
  return { from_us: begin, to_us: begin + width };
}

/**
 * Moments for the axis, with at least that distance.
 * @param {Stretch} of @param {number} width in pixels @param {number} apart in pixels @param {(at_us: number, step_us: number) => string} word
 * @returns {Tick[]}
 */
export function ticks({ from_us, to_us }, width, apart, word) {
  const wanted = ((to_us - from_us) / Math.max(1, width)) * apart;
  const step = STEPS_US.find((each) => each >= wanted) ?? STEPS_US[STEPS_US.length - 1];
  // Aligned to the hours of the day in the local time zone.
  const zone_us = new Date(from_us / 1000).getTimezoneOffset() * 60e6;
  const found = [];
  for (let at = Math.ceil((from_us - zone_us) / step) * step + zone_us; at < to_us; at += step) found.push({ at_us: at, text: word(at, step) });
  return found;
}

/** The time of day, with the precision of the step. @param {number} at_us @param {number} step_us */
export function tickWord(at_us, step_us) {
  const at = new Date(Math.floor(at_us / 1000));
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const minutes = `${two(at.getHours())}:${two(at.getMinutes())}`;
  // With steps of half a day or more, show the day as well.
  if (step_us >= 12 * 3600e6) return `${at.getDate()} ${MONTHS[at.getMonth()]} ${minutes}`;
  if (step_us >= 60e6) return minutes;
  const seconds = `${minutes}:${two(at.getSeconds())}`;
  if (step_us >= 1e6) return seconds;
  const us = ((Math.round(at_us) % 1e6) + 1e6) % 1e6;
  if (step_us >= 1e3) return `${two(at.getSeconds())}.${String(Math.floor(us / 1e3)).padStart(3, "0")} s`;
  return `.${String(us).padStart(6, "0")} s`;
}
