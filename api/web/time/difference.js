// The differences between two folded states, field by field, in words. Pure.

import { clock, controllerTerm } from "../format.js";

/**
 * @typedef {import("../fold.js").ClusterState} ClusterState
 * @typedef {{of: string, field: string, before: string, after: string}} Difference
 */

const UNTOLD = new Set(["seq", "at_us", "controller_terms", "losses", "losses_acknowledged_seq", "lost_acknowledged", "zab_leader_since_us"]);
/** @type {Record<string, string>} The names of the parts of a state. */
const GROUPS = {
  peers: "peer ", brokers: "broker ", partitions: "", topics: "topic ", configs: "", faults: "fault ", workloads: "producer ",
  consumers: "consumer ", groups: "group ", transactions: "transaction of ",
};

/**
 * All differences, in the order of the state's parts. A key that only one state has is one difference.
 * @param {ClusterState} a @param {ClusterState} b @returns {Difference[]}
 */
export function differences(a, b) {
  /** @type {Difference[]} */
  const found = [];
  const [before, after] = [/** @type {Record<string, any>} */ (a), /** @type {Record<string, any>} */ (b)];
  for (const part of Object.keys(after)) {
    if (UNTOLD.has(part)) continue;
    if (part in GROUPS) {
      for (const key of new Set([...Object.keys(before[part]), ...Object.keys(after[part])])) {
        fields(`${GROUPS[part]}${key}`, before[part][key], after[part][key], found);
      }
    } else if (before[part] !== after[part]) found.push({ of: "ensemble", field: part.replaceAll("_", " "), before: word(part, before[part]), after: word(part, after[part]) });
  }
  for (const term of b.controller_terms) {
    const same = a.controller_terms.find((each) => each.controller_epoch === term.controller_epoch);
    fields(`controller term, ${controllerTerm(term.broker_id, term.controller_epoch)}`, same, term, found);
  }
  const lost = (/** @type {ClusterState} */ state) => state.losses.length;
  if (lost(a) !== lost(b)) found.push({ of: "losses", field: "reported", before: String(lost(a)), after: String(lost(b)) });
  return found;
}

/** @param {string} of @param {any} a @param {any} b @param {Difference[]} found */
function fields(of, a, b, found) {
  if (typeof (a ?? b) !== "object") {
    if (a !== b) found.push({ of, field: "value", before: word("", a), after: word("", b) });
  } else if (a === undefined) found.push({ of, field: "exists", before: "no", after: "yes" });
  else if (b === undefined) found.push({ of, field: "exists", before: "yes", after: "no" });
  else {
    for (const field of Object.keys(b)) {
      const [x, y] = [a[field], b[field]];
      if (JSON.stringify(x) === JSON.stringify(y)) continue;
      if (y !== null && typeof y === "object" && !Array.isArray(y)) {
        for (const key of new Set([...Object.keys(x ?? {}), ...Object.keys(y)])) {
          if (x?.[key] !== y[key]) found.push({ of, field: `${field.replaceAll("_", " ")} ${key}`, before: word("", x?.[key]), after: word("", y[key]) });
        }
      } else found.push({ of, field: field.replaceAll("_", " "), before: word(field, x), after: word(field, y) });
    }
  }
}

/** @param {string} field @param {any} value */
function word(field, value) {
  if (value === undefined || value === null) return "none";
  if (field.endsWith("_us") && Number(value) > 0) return clock(Number(value));
  if (Array.isArray(value)) return value.length ? value.join(", ") : "empty";
  return String(value);
}
