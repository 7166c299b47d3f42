// A link fault, as both the drag and the forms request it, and the fields of the forms.

import { html } from "lit-html";

import { requests } from "../actions.js";
import { plural } from "../format.js";
import { select } from "../views/parts.js";

/**
 * @typedef {{kind: "cut" | "delay" | "bandwidth", both_ways: boolean, delay_ms: number, bytes_per_s?: number}} Manner  The kind of a link fault.
 */

/** @type {Manner} */
export const CUT = { kind: "cut", both_ways: true, delay_ms: 200 };

/** The text for an empty list of faults. @param {import("../model.js").Model} m */
export const noFault = (m) => (m.faults_known ? "No link faults" : `Link faults are unknown: ${noAnswer(m)}`);

/** The number of faults, in words. @param {import("../model.js").Model} m */
export const howMany = (m) => plural(m.faults.length, "fault") + (m.faults_known ? "" : `, last known: ${noAnswer(m)}`);

/** Why the faults are not known. @param {import("../model.js").Model} m */
const noAnswer = ({ silent_ms }) => (silent_ms === null ? "no host agent responds" : "the API does not respond");

/** The request of both. @param {string} from @param {string} to a node or client, or * for all nodes @param {Manner} manner */
export function injection(from, to, { kind, both_ways, delay_ms, bytes_per_s }) {
  return requests.injectFault({ from, to, kind, both_ways, ...(kind === "delay" ? { delay_ms } : {}), ...(kind === "bandwidth" ? { bytes_per_s } : {}) });
}

const KINDS = [{ value: "cut", text: "cut" }, { value: "delay", text: "delay" }, { value: "bandwidth", text: "bandwidth" }];
const CLIENT = "client:ID (Kafka), session:0xID (ZooKeeper) or an IP address; instead of the first node";

/**
 * The fields of a form for a link fault: between two nodes, or between a client and a node.
 * @param {string} prefix of the elements' ids @param {string[]} nodes @param {string} to the target at first
 */
export function fields(prefix, nodes, to) {
  return html`${select(prefix, "kind", "fault", KINDS)}
    ${select(prefix, "from", "from", nodes)}
    <label class="field"><span>or a client</span><input name="client" maxlength="1024" title=${CLIENT} placeholder="client:shop-*"></label>
    ${select(prefix, "to", "to", [...nodes, { value: "*", text: "all nodes" }], to)}
    <label class="field"><span>delay, ms</span><input name="delay_ms" type="number" min="1" max="600000" value=${CUT.delay_ms}></label>
    <label class="field"><span>bytes per second</span><input name="bytes_per_s" type="number" min="1" max="1000000000" value="10000"></label>
    <label class="field check"><input name="both_ways" type="checkbox" checked><span>both ways</span></label>`;
}

/** The request of the form with these fields. @param {Record<string, string>} form */
export function formInjection({ client, from, to, kind, both_ways, delay_ms, bytes_per_s }) {
  return injection(client || from, to, {
    kind: /** @type {Manner["kind"]} */ (kind), both_ways: both_ways === "on", delay_ms: Number(delay_ms), bytes_per_s: Number(bytes_per_s),
  });
}

/** A fault's delay or bandwidth, after a comma. @param {any} fault */
export const amount = ({ delay_ms, bytes_per_s }) => `${delay_ms ? `, ${delay_ms} ms` : ""}${bytes_per_s ? `, ${bytes_per_s} bytes/s` : ""}`;

/** An end of a fault. @param {string} end */
export const spokenEnd = (end) => (end === "*" ? "all nodes" : end);
