// The rail on the right: the state of the cluster, causes, calls, and the events around the moment.

import { html, nothing } from "lit-html";

import { source } from "../source/source.js";
import { whyPanel } from "../why/panel.js";
import { compared } from "./compared.js";
import { forkPanel } from "./fork.js";
import { incidentsPanel } from "./incidents.js";
import { calls, events } from "./journal.js";
import { standing } from "./standing.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../store.js").State} State
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../time/moment.js").Moment} Moment
 */

/**
 * @param {State} state @param {Model} m @param {Actions} actions @param {Moment} moment @param {() => void} changed
 * @param {() => Promise<void>} readChatter
 */
export function rail(state, m, actions, moment, changed, readChatter) {
  return html`<aside class="rail" aria-label="State and journal">
    ${moment.place.tab === "table" ? nothing : standing(m, actions, moment)}
    ${whyPanel(state, moment, changed)}${moment.place.tab === "tracks" ? incidentsPanel(moment, changed) : nothing}
    ${forkPanel(m, moment, actions, changed)}${compared(moment)}${source().live ? calls(state) : nothing}${events(state, m, moment, changed, readChatter)}</aside>`;
}
