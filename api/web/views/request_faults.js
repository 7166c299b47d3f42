// Request faults: a form for one rule, a form for a ready set, and the list with counts.

import { html, nothing } from "lit-html";
import { keyed } from "lit-html/directives/keyed.js";

import { requests } from "../actions.js";
import { count, plural } from "../format.js";
import { badge, icon, panel, select, send, submit } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 */

const SETS = [
  "ack-lost", "not-leader", "coordinator-loading", "coordinator-moves", "rebalance-storm", "slow-broker", "stale-metadata", "throttled",
  "session-moved", "connection-loss-on-create",
];
const EFFECTS = [
  "error", "delay_before", "delay_after", "drop_response", "drop_request", "close", "hang", "throttle", "corrupt", "truncate", "stale",
];
const TEXTS = ["topic", "group", "client_id", "path", "principal", "node"];

/** The first values of the form for a rule. `number` counts the times that it was filled in. */
const draft = { number: 0, /** @type {Record<string, string>} */ fields: {} };

/** Fill in the form for a rule. @param {Record<string, string>} fields */
export function fillIn(fields) {
  draft.number += 1;
  draft.fields = fields;
}

/**
 * The body of a rule: a name in lower case is an operation of ZooKeeper. Empty fields are left out.
 * @param {Record<string, string>} fields
 */
export function rule(fields) {
  const name = fields.request ?? "";
  const value = /** @type {Record<string, object>} */ ({
    error: { error: fields.value }, throttle: { throttle_ms: Number(fields.value) },
    delay_before: { delay_ms: Number(fields.value) }, delay_after: { delay_ms: Number(fields.value) },
  })[fields.effect ?? ""] ?? {};
  return {
    kind: "request", ...(/^[a-z]/.test(name) ? { opcode: name } : { api: name }), effect: fields.effect, ...value,
    ...narrowing(fields), ...(Number(fields.times) > 0 ? { times: Number(fields.times) } : {}),
  };
}

/** The fields that narrow a rule or a set. @param {Record<string, string>} fields */
export function narrowing(fields) {
  return Object.fromEntries(TEXTS.filter((name) => fields[name]).map((name) => [name, fields[name]]));
}

/** @param {Model} m @param {Actions} actions */
export function requestFaults(m, actions) {
  const add = submit((fields) => void actions.send(requests.injectFault(rule(fields))));
  const addSet = submit((fields) => void actions.send(requests.addFaultSet(fields.set ?? "", narrowing(fields))));
  const off = actions.off !== "";
  const { request = "Produce", ...given } = /** @type {Record<string, string>} */ (draft.fields);
  const one = html`<form class="row" aria-label="Add a request fault" @submit=${add}>
      <label class="field"><span>request</span><input name="request" value=${request} title="A Kafka API, such as Fetch, or an operation of ZooKeeper, such as create" required></label>
      ${select("request-fault", "effect", "effect", EFFECTS, "drop_response")}
      <label class="field"><span>error or ms</span><input name="value" title="The name of the error, or milliseconds of a delay or throttle time"></label>
      ${narrowed(given)}
      <label class="field"><span>times, 0 for all</span><input name="times" type="number" min="0" value="1"></label>
      <button class="primary" ?disabled=${off}>Add</button></form>`;
  const forms = html`${keyed(draft.number, one)}
    <form class="row" aria-label="Add a predefined set of request faults" @submit=${addSet}>
      ${select("request-fault", "set", "ready set", SETS)}${narrowed({})}
      <button ?disabled=${off}>Add set</button></form>`;
  const held = m.request_faults.length === 0 ? html`<p class="quiet">No request faults.</p>` : html`<ul class="faults">
    ${m.request_faults.map((f) => html`<li>${badge("warn", f.part_of || "request", "warn")}
      <span>${f.text}${f.used === null ? nothing : html`, used <b>${count(f.used)}</b> of ${count(f.matched)}`}</span>
      ${send(actions, requests.healFault(f.fault_id), "Remove", { name: `Remove ${f.text}` })}</li>`)}</ul>`;
  const aside = m.request_faults.length ? html`<span class="sum warn">${icon("warn")} ${plural(m.request_faults.length, "fault")}</span>` : nothing;
  return panel("request-faults", "Request faults", aside, html`${forms}${held}`);
}

/** @param {Record<string, string>} given */
function narrowed(given) {
  return TEXTS.map((name) => html`<label class="field"><span>${name.replace("_", " ")}</span><input name=${name} value=${given[name] ?? ""} maxlength="1024"></label>`);
}
