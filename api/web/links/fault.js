// A fault of a link, as the drag and the form both ask for it.  Pure.

import { requests } from "../actions.js";
import { plural } from "../format.js";

/**
 * @typedef {{kind: "cut" | "delay", both_ways: boolean, delay_ms: number}} Manner  How a link is to suffer.
 */

/** @type {Manner} */
export const CUT = { kind: "cut", both_ways: true, delay_ms: 200 };

/** What is said where no fault is told. @param {import("../model.js").Model} m */
export const noFault = (m) => (m.faults_known ? "No link faults" : `Link faults are unknown: ${noAnswer(m)}`);

/** How many there are, in words. @param {import("../model.js").Model} m */
export const howMany = (m) => plural(m.faults.length, "fault") + (m.faults_known ? "" : `, last known: ${noAnswer(m)}`);

/** Why the faults are not known. @param {import("../model.js").Model} m */
const noAnswer = ({ silent_ms }) => (silent_ms === null ? "no host agent responds" : "the API does not respond");

/** The one call behind both. @param {string} from @param {string} to a node, or * for everybody @param {Manner} manner */
export function injection(from, to, { kind, both_ways, delay_ms }) {
  return requests.injectFault({ from, to, kind, both_ways, ...(kind === "delay" ? { delay_ms } : {}) });
}
