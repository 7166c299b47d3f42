// The tabs: their content, the panels on them that links lead to, and the modules that are loaded on demand.

import { html } from "lit-html";

import { source } from "./source/source.js";
import { view as tracks } from "./tracks/tab.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./model.js").Model} Model
 * @typedef {import("./time/moment.js").Moment} Moment
 * @typedef {import("./actions.js").Actions} Actions
 * @typedef {(state: State, m: Model, moment: Moment, changed: () => void, actions: Actions) => unknown} View
 * @typedef {{name: string, title: string, view?: View, load?: () => Promise<{view: View}>, panels: string[]}} Tab
 */

/** @type {Tab[]} In their order. */
export const TABS = [
  { name: "tracks", title: "Tracks", view: tracks, panels: ["tracks", "standing", "why", "incidents", "events", "calls"] },
  { name: "messages", title: "Messages", load: () => import("./messages/tab.js"), panels: ["messages"] },
  { name: "links", title: "Links", load: () => import("./links/tab.js"), panels: ["links"] },
  { name: "table", title: "Table", load: () => import("./table/tab.js"), panels: ["controller_terms", "peers", "brokers", "beliefs", "partitions", "topics", "groups", "transactions", "security", "losses"] },
  { name: "lab", title: "Lab", load: () => import("./lab/tab.js"), panels: ["workloads", "faults", "request-faults", "fault-script", "analytics", "pipeline", "audits", "campaigns", "scenarios", "first-difference"] },
  { name: "lessons", title: "Lessons", load: () => import("./lessons/tab.js"), panels: ["lessons"] },
  { name: "compare", title: "Compare", load: () => import("./compare/tab.js"), panels: ["compare"] },
];

/** The tab of the element with that id; null if it is on every tab. @param {string} id */
export const tabOf = (id) => TABS.find((tab) => tab.name !== "tracks" && tab.panels.includes(id))?.name ?? null;

/** The available tabs: comparing needs two runs. @param {Moment} moment */
export const shownTabs = (moment) =>
  TABS.filter(({ name }) => source().tabs.includes(name) && (name !== "compare" || moment.place.with !== null || moment.place.tab === "compare"));

/** Load a tab's module before the user opens it. @param {Tab} tab */
export const fetchTab = (tab) => void tab.load?.().catch(() => undefined);

/**
 * Draw the chosen tab.
 * @param {State} state @param {Model} m @param {Moment} moment @param {() => void} changed @param {Actions} actions
 */
export function chosen(state, m, moment, changed, actions) {
  const tab = TABS.find((each) => each.name === moment.place.tab) ?? TABS[0];
  if (tab.view) return tab.view(state, m, moment, changed, actions);
  const fetched = tab.load?.().then(
    (module) => {
      tab.view = module.view;
      changed();
    },
    () => {
      tab.view = () => html`<p class="panel bad" role="alert">Cannot load the files of this tab. Reload the page.</p>`;
      changed();
    },
  );
  if (fetched) delete tab.load;
  return html`<p class="panel quiet">Loading…</p>`;
}
