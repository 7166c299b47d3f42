// A link fault, as both the drag and the form request it. Pure.

import { requests } from "../actions.js";
import { plural } from "../format.js";

/**
 * @typedef {{kind: "cut" | "delay", both_ways: boolean, delay_ms: number}} Manner  The kind of a link fault.
 */

/** @type {Manner} */
export const CUT = { kind: "cut", both_ways: true, delay_ms: 200 };

/** The text for an empty list of faults. @param {import("../model.js").Model} m */
export const noFault = (m) => (m.faults_known ? "No link faults" : `Link faults are unknown: ${noAnswer(m)}`);

/** The number of faults, in words. @param {import("../model.js").Model} m */
export const howMany = (m) => plural(m.faults.length, "fault") + (m.faults_known ? "" : `, last known: ${noAnswer(m)}`);

/** Why the faults are not known. @param {import("../model.js").Model} m */
const noAnswer = ({ silent_ms }) => (silent_ms === null ? "no host agent responds" : "the API does not respond");

/** The request of both. @param {string} from @param {string} to a node, or * for all nodes @param {Manner} manner */
export function injection(from, to, { kind, both_ways, delay_ms }) {
  return requests.injectFault({ from, to, kind, both_ways, ...(kind === "delay" ? { delay_ms } : {}) });
}
