// A split of the network: the nodes of one side are chosen, and all links to the other nodes are cut.

import { html, nothing } from "lit-html";

import { requests } from "../actions.js";
import { source } from "../source/source.js";
import { send } from "../views/parts.js";

/** @typedef {import("../actions.js").Actions} Actions */

/** @type {Set<string>} The nodes of the chosen side. */
const side = new Set();

/** @param {string[]} nodes @param {Actions} actions @param {() => void} changed */
export function splitForm(nodes, actions, changed) {
  if (!source().live) return nothing;
  const one = nodes.filter((node) => side.has(node));
  const other = nodes.filter((node) => !side.has(node));
  const set = (/** @type {string} */ node) => (/** @type {Event} */ event) => {
    if (/** @type {HTMLInputElement} */ (event.target).checked) side.add(node);
    else side.delete(node);
    changed();
  };
  const possible = one.length > 0 && other.length > 0;
  return html`<fieldset class="split" ?disabled=${actions.off !== ""}><legend>Split the network</legend>
    <p class="row">${nodes.map((node) => html`<label class="field check"><input type="checkbox" name="side" value=${node} .checked=${side.has(node)} @change=${set(node)}><span>${node}</span></label>`)}</p>
    <p class="row">${send(actions, requests.split([one, other]), "Split", { name: "Split the network", tone: "danger", disabled: !possible })}
      <span class="quiet" role="status">${possible ? `{${one.join(", ")}} | {${other.join(", ")}}` : "Choose the nodes of one side; the others are the other side."}</span></p></fieldset>`;
}
