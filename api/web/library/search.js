// The search and the filters of the library, and its rows of lessons and stored runs.

import { html, nothing } from "lit-html";

import { hash } from "../time/hash.js";
import { badge, select } from "../views/parts.js";
import { ALL, filtered, KINDS, subjectsOf } from "./filter.js";

/** @typedef {import("./filter.js").Item} Item */

/** The filter that is shown. */
export const wanted = { ...ALL };

/** @param {Item[]} all @param {() => void} changed */
export function search(all, changed) {
  const set = (/** @type {Partial<typeof wanted>} */ to) => {
    Object.assign(wanted, to);
    changed();
  };
  const checked = (/** @type {Event} */ e) => /** @type {HTMLInputElement} */ (e.target).checked;
  const of_kind = filtered(all, { ...ALL, kind: wanted.kind });
  const shown = filtered(all, wanted).length;
  return html`<div class="row find" role="search" aria-label="Outage library">
    <input type="search" aria-label="Search the library" placeholder="search: watermark, KAFKA-1211, session" .value=${wanted.text}
      @input=${(/** @type {Event} */ e) => set({ text: /** @type {HTMLInputElement} */ (e.target).value })}>
    ${select("library", "kind", "show", Object.entries(KINDS).map(([value, text]) => ({ value, text })), wanted.kind, (kind) => set({ kind }))}
    ${select("library", "subject", "subject", [{ value: "", text: "all" }, ...subjectsOf(of_kind).map(([value, count]) => ({ value, text: `${value} (${count})` }))], wanted.subject, (subject) => set({ subject }))}
    ${select("library", "system", "system", [{ value: "", text: "both" }, "Kafka", "ZooKeeper"], wanted.system, (system) => set({ system }))}
    <label class="field check"><input type="checkbox" .checked=${wanted.live} @change=${(/** @type {Event} */ e) => set({ live: checked(e) })}><span>runs on this cluster</span></label>
    <label class="field check"><input type="checkbox" .checked=${wanted.lost} @change=${(/** @type {Event} */ e) => set({ lost: checked(e) })}><span>lost records</span></label>
    <span class="quiet" role="status">${shown === of_kind.length ? nothing : `${shown} of ${of_kind.length}`}</span></div>`;
}

/** The subjects of an item. @param {string[]} subjects */
export const subjects = (subjects) => (subjects.length ? html`<span class="facts">${subjects.join(", ")}</span>` : nothing);

/** The row of a lesson or of a stored run. @param {Item} item @param {import("../time/moment.js").Moment} moment */
export function otherRow(item, moment) {
  const { kind, name, title, of } = item;
  const there = kind === "lesson" ? { ...moment.place, tab: "lessons", lesson: name }
    : { ...moment.place, run: name, at: of.decisive_seq ?? null, with: of.pair, pin: null, tab: "tracks" };
  const verdict = kind === "run" && of.verdict !== null ? badge(of.verdict === "held" ? "ok" : "bad", of.verdict === "held" ? "passed" : "failed", of.verdict === "held" ? "leading" : "bad") : nothing;
  return html`<tr aria-label="${kind === "lesson" ? "Lesson" : "Run"} ${name}">
    <th scope="row"><span class="name">${name}</span><span class="facts">${kind === "lesson" ? "lesson" : `stored run of ${of.kind === "upload" ? "a file" : of.kind}`}</span>${subjects(item.subjects)}</th>
    <td><b>${title}</b><span class="why">${of.question ?? of.variant ?? ""}</span></td>
    <td></td><td>${verdict}</td><td class="n"><a class="button" href=${hash(there)} aria-label="Open ${kind} ${name}">Open</a></td></tr>`;
}
