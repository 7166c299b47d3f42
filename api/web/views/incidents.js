// The incidents in the visible time: first cause, detection, failover, damage and recovery, as text to copy.

import { html, nothing } from "lit-html";

import { plural } from "../format.js";
import { source } from "../source/source.js";
import { hash } from "../time/hash.js";
import { Answers } from "../why/answers.js";
import { icon, panel } from "./parts.js";

/**
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../source/source.js").Incident} Incident
 */

const answers = new Answers();
/** The live run's incidents are only requested while the user looks at them: the API examines many events. */
let opened = false;

/** @param {Moment} moment @param {() => void} changed */
export function incidentsPanel(moment, changed) {
  const { run } = moment.current();
  const toggle = () => {
    opened = !opened;
    changed();
  };
  if (run === "live" && !opened) {
    return panel("incidents", "Incidents", html`<button type="button" class="small" aria-expanded="false" @click=${toggle}>Summarize</button>`, nothing);
  }
  const answer = answers.of(`/runs/${run}/incidents`, changed, () => source().incidents(run));
  if (answer.state === "loading") return panel("incidents", "Incidents", nothing, html`<p class="quiet">Loading…</p>`);
  if (answer.state === "failed") return panel("incidents", "Incidents", nothing, html`<p class="quiet">${icon("empty")} Cannot read the incidents: ${answer.message}.</p>`);
  /** @type {Incident[]} */
  const all = answer.value;
  const { from_us, to_us } = moment.timeline.window();
  const shown = all.filter((each) => each.from_us <= to_us && (each.to_us ?? Infinity) >= from_us);
  const close = run === "live" ? html`<button type="button" class="small" aria-expanded="true" @click=${toggle}>Close</button>` : nothing;
  const aside = html`<span class="sum">${shown.length ? plural(shown.length, "incident") : "none"} in view</span>
    <span class="push">${shown.length ? copyButton(shown) : nothing}${close}</span>`;
  return panel("incidents", "Incidents", aside, html`<div class="incidents">${shown.map((each) => incident(each, moment))}</div>`);
}

/** @param {Incident} each @param {Moment} moment */
function incident(each, moment) {
  return html`<details><summary>${each.headline}</summary>
    <ul>${each.summary.map((line) => html`<li>${line}</li>`)}</ul>
    <p><a href=${hash({ ...moment.place, run: moment.current().run, at: each.cause_seq })}>Go to its cause</a></p></details>`;
}

/** Incidents as Markdown. @param {Incident[]} incidents */
export const markdown = (incidents) => incidents.map(({ headline, summary }) => `### ${headline}\n\n${summary.map((line) => `- ${line}\n`).join("")}`).join("\n");

/** @param {Incident[]} shown */
function copyButton(shown) {
  const copy = async (/** @type {Event} */ event) => {
    const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
    const done = await navigator.clipboard?.writeText(markdown(shown)).then(() => true, () => false);
    button.dataset.done = done ? "yes" : "no";
    setTimeout(() => delete button.dataset.done, 1500);
  };
  return html`<button type="button" class="small copy" @click=${copy}>Copy as Markdown</button>`;
}
