// The data of the drawings as tables: the controller, peers, brokers, beliefs, partitions, topics, groups, transactions, security, losses.

import { html, nothing } from "lit-html";

import { beliefs, brokers, peers } from "../views/nodes.js";
import { losses, partitions } from "../views/partitions.js";
import { groups } from "../views/groups.js";
import { security } from "../views/security.js";
import { topicSizes } from "../views/topic_sizes.js";
import { controller_terms } from "../views/controller_terms.js";
import { transactions } from "../views/transactions.js";

/** @type {import("../tabs.js").View} */
export function view(state, m, moment, changed, actions) {
  const many = m.brokers.length > 4;
  return html`<div class="cluster ${many ? "many" : ""} ${m.brokers.length > 5 ? "crowded" : ""}">
    ${controller_terms(m)}${many ? beliefs(m) : nothing}
    ${peers(m, actions)}${brokers(m, actions)}
    ${many ? nothing : beliefs(m)}
    ${partitions(state, m, actions, changed)}${topicSizes(state, m, actions, changed)}${groups(state, m, moment, changed)}${transactions(m)}${security(state, m, actions, changed)}${losses(state, m, actions)}
  </div>`;
}
