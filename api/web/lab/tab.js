// Actions on the cluster other than on processes: load, link faults, scenarios, tables, campaigns.

import { html } from "lit-html";

import { audits, campaigns, tables } from "../campaigns/panels.js";
import { scripts } from "../scripts/panel.js";
import { analytics } from "../views/journal.js";
import { faults, workloads } from "../views/lab.js";
import { requestFaults } from "../views/request_faults.js";
import { scenarios } from "../views/scenarios.js";

/** @type {import("../tabs.js").View} */
export function view(state, m, moment, changed, actions) {
  return html`<div class="cluster ${m.brokers.length > 4 ? "many" : ""}">
    ${workloads(state, m, actions)}${faults(m, actions)}${requestFaults(m, actions)}${scripts(state, m, actions, moment, changed)}${analytics(state, actions)}
    ${tables(actions, changed)}${audits(actions, changed)}${campaigns(actions, changed)}${scenarios(state, actions, moment, changed)}
  </div>`;
}
