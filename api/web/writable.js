// Why a write with acks=all to a partition is not acknowledged. Pure; api/views/writable.py does the same, and
// tests/golden/writable.json contains the expected answers of both.

import { list } from "./format.js";

/**
 * @typedef {{kind: string, source: string, target: string, both_ways: boolean}} Fault
 * @typedef {{leader: number, isr: number[], min_isr: number | null, lagging: number[]}} Standing  `lagging`: members of the ISR that the
 *   leader itself has not seen caught up for replica.lag.time.max.ms; `min_isr`: null if the leader has not reported it.
 */

const NAMED_MAX = 3;
const ANY = "*";

/** Whether two brokers cannot replicate from each other: a fetch needs both directions. @param {Fault[]} faults @param {number} one @param {number} other */
export function isCut(faults, one, other) {
  const ends = new Set([`broker-${one}`, `broker-${other}`]);
  return faults.some(({ kind, source, target }) => kind === "cut" && source !== target && (source === ANY || ends.has(source)) && (target === ANY || ends.has(target)));
}

/**
 * Why a partition does not acknowledge a write with acks=all; null if nothing is known to prevent it.
 * @param {Standing} standing @param {(id: number) => string} processOf @param {Fault[]} faults
 */
export function obstacle({ leader, isr, min_isr, lagging }, processOf, faults) {
  if (leader < 0) return "it has no leader";
  const process = processOf(leader);
  if (process === "down" || process === "paused") return `its leader, broker ${leader}, is ${process}`;
  if (min_isr !== null && isr.length < min_isr) return `its ISR has ${isr.length} of the ${min_isr} members that min.insync.replicas requires`;
  const others = isr.filter((id) => id !== leader);
  const cut = others.filter((id) => isCut(faults, leader, id));
  if (cut.length) return `its leader, broker ${leader}, is cut off from ${brokers(cut)} in its ISR`;
  const behind = others.filter((id) => lagging.includes(id));
  return behind.length ? `its leader, broker ${leader}, has waited for ${brokers(behind)} in its ISR longer than replica.lag.time.max.ms` : null;
}

/** @param {number[]} ids */
const brokers = (ids) => `${ids.length === 1 ? "broker" : "brokers"} ${list(ids.map(String))}`;

/** The first names and the number of others. @param {string[]} names */
export function named(names) {
  const more = names.length - NAMED_MAX;
  return list([...names.slice(0, NAMED_MAX), ...(more > 0 ? [`${more} more`] : [])]);
}

/** The first links with faults, grouped by node, and the number of others: "cut broker 5 ↔ brokers 1 and 2". @param {Fault[]} faults */
export function links(faults) {
  /** @type {Map<string, {head: string, targets: string[], count: number}>} */
  const found = new Map();
  for (const { kind, source, target, both_ways } of faults) {
    const key = `${kind} ${source} ${both_ways}`;
    const of = found.get(key) ?? { head: `${kind.replaceAll("_", " ")} ${spaced(source)}${source === target ? "" : both_ways ? " ↔" : " →"}`, targets: [], count: 0 };
    of.count += 1;
    if (source !== target) of.targets.push(spaced(target));
    found.set(key, of);
  }
  const groups = [...found.values()];
  const more = groups.slice(NAMED_MAX).reduce((sum, { count }) => sum + count, 0);
  const texts = groups.slice(0, NAMED_MAX).map(({ head, targets }) => [head, together(targets)].filter(Boolean).join(" "));
  return [...texts, ...(more > 0 ? [`${more} more`] : [])].join("; ");
}

/** A node's name in words; a client's stays. @param {string} node */
const spaced = (node) => (/^(broker|peer)-/.test(node) ? node.replace("-", " ") : node === ANY ? "all nodes" : node);

/** "broker 1, broker 2 and peer 1" as "brokers 1, 2 and peer 1". @param {string[]} nodes */
function together(nodes) {
  const of = (/** @type {string} */ role) => nodes.filter((node) => node.startsWith(`${role} `)).map((node) => node.slice(role.length + 1));
  const parts = ["broker", "peer"].flatMap((role) => {
    const ids = of(role);
    return ids.length ? [`${role}${ids.length > 1 ? "s" : ""} ${list(ids)}`] : [];
  });
  return list([...parts, ...nodes.filter((node) => !/^(broker|peer) /.test(node))]);
}
