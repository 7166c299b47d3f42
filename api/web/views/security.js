// The listeners of the brokers with their certificates, and on request the authorizer and the ACLs.

import { html, nothing } from "lit-html";

import { outcome, requests } from "../actions.js";
import { fresh } from "../campaigns/fresh.js";
import { count, list, plural } from "../format.js";
import { badge, icon, panel } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../store.js").State} State
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {{subject: string, not_before_ms: number, not_after_ms: number}} Certificate
 * @typedef {{broker_id: number, name: string, host: string, port: number, protocol: string, mechanisms: string[],
 *   inter_broker: boolean, client_auth: string | null, certificate: Certificate | null}} Listener
 * @typedef {{resource_type: string, resource_name: string, pattern_type: string, principal: string, host: string,
 *   operation: string, permission: string}} Binding
 * @typedef {{authorizer: string | null, super_users: string[], allow_everyone_if_no_acl_found: boolean,
 *   brokers_without_authorizer: number[], bindings: Binding[], omitted: number, note: string | null}} Acls
 */

const LISTENERS_MS = 5000;
const ROWS_MAX = 200;
const DAY_MS = 86_400_000;
/** A certificate that expires within this time is marked. */
const SOON_DAYS = 30;

/** The answer that was read last, or why there is none. @type {{found: Acls | null, trouble: string, loading: boolean} | null} */
let shown = null;

/** @param {State} state @param {Model} m @param {Actions} actions @param {() => void} changed */
export function security(state, m, actions, changed) {
  const title = "Listeners and permissions";
  // The journal has no listeners and no ACLs.
  if (state.past) return nothing;
  if (m.silent_ms !== null) return panel("security", title, nothing, html`<p class="quiet">${icon("empty")} Unknown: the API does not respond.</p>`);
  const asked = fresh("/listeners", LISTENERS_MS, changed);
  if (asked.state !== "ready") {
    return panel("security", title, nothing, html`<p class="quiet">${asked.state === "loading" ? "Loading…" : html`${icon("empty")} Cannot read the listeners: ${asked.message}.`}</p>`);
  }
  /** @type {Listener[]} */
  const found = asked.value;
  const open = found.filter(({ protocol }) => protocol === "PLAINTEXT").length;
  const aside = html`<span class="sum"><b>${count(found.length)}</b> ${found.length === 1 ? "listener" : "listeners"}${open ? html`, ${count(open)} without encryption and authentication` : nothing}</span>`;
  return panel("security", title, aside, html`${found.length ? listeners(found) : html`<p class="quiet">No running broker reports its listeners.</p>`}${permissions(actions, changed)}`);
}

/** @param {Listener[]} found */
function listeners(found) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Listeners, scrollable"><table>
    <thead><tr><th scope="col">listener</th><th scope="col">broker</th><th scope="col">address</th><th scope="col">protocol</th><th scope="col">mechanisms</th>
      <th scope="col">client certificate</th><th scope="col">certificate</th></tr></thead>
    <tbody>${found.map(row)}</tbody></table></div>`;
}

/** @param {Listener} of */
function row(of) {
  const none = html`<span class="quiet">none</span>`;
  return html`<tr aria-label="Listener ${of.name} of broker ${of.broker_id}"><th scope="row">${of.name}${of.inter_broker ? html` <span class="quiet">between brokers</span>` : nothing}</th>
    <td>broker ${of.broker_id}</td><td>${of.host.replace("127.0.0.1", "")}:${of.port}</td><td>${of.protocol}</td><td>${of.mechanisms.join(", ") || none}</td>
    <td>${of.client_auth ?? none}</td><td>${of.certificate === null ? none : certificate(of.certificate)}</td></tr>`;
}

/** The subject of a certificate, and when it expires. @param {Certificate} of */
function certificate({ subject, not_after_ms }) {
  const days = Math.floor((not_after_ms - Date.now()) / DAY_MS);
  const date = new Date(not_after_ms).toISOString().slice(0, 10);
  if (days < 0) return html`${subject} ${badge("bad", `expired ${date}`, "bad")}`;
  if (days < SOON_DAYS) return html`${subject} ${badge("warn", `expires ${date}, in ${plural(days, "day")}`, "warn")}`;
  return html`${subject} <span class="quiet">expires ${date}</span>`;
}

/** @param {Actions} actions @param {() => void} changed */
function permissions(actions, changed) {
  const read = async () => {
    const mine = (shown = { found: shown?.found ?? null, trouble: "", loading: true });
    changed();
    const answer = await actions.send(requests.acls());
    Object.assign(mine, { loading: false, ...(answer?.ok ? { found: answer.body, trouble: "" } : { trouble: answer === null ? "the API does not respond" : outcome(answer) }) });
    changed();
  };
  const close = () => {
    shown = null;
    document.getElementById("security")?.focus();
    changed();
  };
  return html`<section aria-label="Permissions" aria-busy=${shown?.loading ? "true" : "false"}>
    <header class="row"><h3>Permissions</h3>
      <button type="button" class="small" ?disabled=${shown?.loading ?? false} @click=${read}>${shown === null ? "Show ACLs" : "Read again"}</button>
      ${shown === null ? nothing : html`<button type="button" class="small" aria-label="Close the ACLs" @click=${close}>Close</button>`}</header>
    ${shown?.trouble ? html`<p class="bad" role="alert">${icon("bad")} ${shown.trouble}</p>` : nothing}
    ${shown?.found && !shown.trouble ? acls(shown.found) : nothing}</section>`;
}

/** @param {Acls} of */
function acls(of) {
  if (of.authorizer === null) return html`<p class="quiet" role="status">${icon("empty")} ${of.note}</p>`;
  const without = of.brokers_without_authorizer.map((id) => `broker ${id}`);
  const otherwise = of.allow_everyone_if_no_acl_found ? "allowed to every client" : "denied";
  return html`<p role="status"><span class="quiet">Authorizer</span> ${of.authorizer.split(".").at(-1)}<span class="quiet">, super users</span> ${of.super_users.join(", ") || "none"}<span
      class="quiet">, operations on resources without an ACL are</span> ${otherwise}</p>
    ${without.length ? html`<p class="warn">${icon("warn")} ${list(without)} ${without.length === 1 ? "has" : "have"} no authorizer and ${without.length === 1 ? "allows" : "allow"} everything.</p>` : nothing}
    ${of.bindings.length ? bindings(of) : html`<p class="quiet">There are no ACLs.</p>`}`;
}

/** @param {Acls} of */
function bindings({ bindings: found, omitted }) {
  const more = omitted + Math.max(0, found.length - ROWS_MAX);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="ACLs, scrollable"><table aria-label="ACLs">
    <thead><tr><th scope="col">principal</th><th scope="col">permission</th><th scope="col">operation</th><th scope="col">resource</th><th scope="col">pattern</th><th scope="col">host</th></tr></thead>
    <tbody>${found.slice(0, ROWS_MAX).map((each) => html`<tr><th scope="row">${each.principal}</th>
      <td>${each.permission === "Deny" ? badge("bad", "Deny", "bad") : badge("ok", each.permission)}</td><td>${each.operation}</td>
      <td>${each.resource_type} ${each.resource_name}</td><td>${each.pattern_type.toLowerCase()}</td><td>${each.host}</td></tr>`)}
      ${more ? html`<tr><td colspan="6" class="quiet">and ${plural(more, "ACL")} more</td></tr>` : nothing}</tbody></table></div>`;
}
