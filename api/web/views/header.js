// The head of the page: the run and the moment, the state of the cluster, the controller; and the tabs.

import { html, nothing } from "lit-html";

import { clock, controllerTerm, duration, lastKnown, leaderTerm, plural } from "../format.js";
import { source } from "../source/source.js";
import { hash } from "../time/hash.js";
import { runLabel } from "../time/run_label.js";
import { fetchTab, shownTabs } from "../tabs.js";
import { meaning } from "./glossary.js";
import { badge, icon } from "./parts.js";
import { runMenu } from "./run_menu.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../store.js").State} State
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../actions.js").Actions} Actions
 */

/** The page's icon: a file of the server, or part of an exported page. */
const ICON = document.querySelector("link[rel=icon]")?.getAttribute("href") ?? "";

/** @param {State} state @param {Model} m @param {Moment} moment @param {number} now_ms @param {Actions} actions */
export function top(state, m, moment, now_ms, actions) {
  const { health } = m;
  const shape = health.level === "unknown" ? "empty" : health.level;
  return html`<header class="top">
    <h1><img src=${ICON} alt="" width="22" height="22">zabka</h1>
    ${runs(moment, actions)}${when(state, m, moment, now_ms)}
    <div class="health ${health.level}" role="group" aria-label="Health"><strong>${icon(shape)} ${health.word}</strong>
      <ul>${health.reasons.map((reason) => html`<li><a href=${reason.href}>${reason.text}</a></li>`)}</ul></div>
  </header>`;
}

/** The choice of runs. @param {Moment} moment @param {Actions} actions */
function runs(moment, actions) {
  const { run } = moment.place;
  const known = moment.runs.length ? moment.runs : [{ id: "live", title: "live cluster", kind: "live" }];
  const all = known.some((each) => each.id === run) ? known : [...known, { id: run, title: run, kind: "" }];
  // The list of runs is too narrow for the end of a title, which contains the variant.
  const variant = moment.runs.find((each) => each.id === run)?.variant;
  const chosen = (/** @type {Event} */ e) => moment.go({ run: /** @type {HTMLSelectElement} */ (e.target).value });
  return html`<div class="which"><label class="unseen" for="run">run</label>
    <select id="run" title=${(all.find((each) => each.id === run) ?? all[0]).title} @change=${chosen} @focus=${() => void moment.readRuns()}>${all.map((each) => html`<option value=${each.id} title=${each.title} ?selected=${each.id === run} .selected=${each.id === run}>${runLabel(each)}</option>`)}</select>
    ${runMenu(moment, actions)}${variant ? badge("warn", variant, "warn") : nothing}</div>`;
}

/** LIVE, or PAST with its age and the way back. @param {State} state @param {Model} m @param {Moment} moment @param {number} now_ms */
function when(state, m, moment, now_ms) {
  const { live, seq, at_us, run, last_us } = moment.current();
  if (live && moment.busy) return html`<p class="when past"><b class="pill">${icon("looking")} loading…</b></p>`;
  if (live) {
    // An open stream without events, while no request is answered either, is not live.
    const link = state.link === "live" && m.silent_ms !== null ? "no response" : state.link;
    const [shape, word] = link === "live" ? /** @type {const} */ (["running", "LIVE"]) : /** @type {const} */ (["looking", link]);
    return html`<p class="when link ${link === "no response" ? "reconnecting" : link}"><b class="pill">${icon(shape)} ${word}</b></p>`;
  }
  const ago = run === "live" ? `${duration(now_ms - at_us / 1000)} ago` : `${duration((last_us - at_us) / 1000)} before the end`;
  return html`<p class="when past"><b class="pill">${icon("paused")} ${run === "live" ? "PAST" : "REPLAY"}, ${ago}</b>
    <span>at <b>${clock(at_us)}</b>, event <b>${seq}</b>${moment.busy ? html` <i class="quiet">loading…</i>` : nothing}</span>
    ${source().live ? html`<button type="button" class="small" @click=${() => moment.toEnd()}>Back to live <kbd>End</kbd></button>` : nothing}</p>`;
}

/** @param {Moment} moment @param {Model} m @param {unknown} more buttons at the end */
export function tabs(moment, m, more) {
  const troubled = m.topics.flatMap((t) => t.partitions).filter((p) => (p.offline || p.unserved || p.unwritable) && !p.deleting).length;
  return html`<nav class="tabs" aria-label="Views"><ul>${shownTabs(moment).map((tab) => {
    const here = tab.name === moment.place.tab;
    return html`<li><a href=${hash({ ...moment.place, tab: tab.name }) || "#tab=tracks"} aria-current=${here ? "page" : nothing} @pointerenter=${() => fetchTab(tab)}>${tab.title}${tab.name === "table" && troubled
      ? html` <span class="count" title="${plural(troubled, "partition")} not writable">${troubled}</span>` : nothing}</a></li>`;
  })}</ul><p class="now"><span title=${meaning("controller")} role="group" aria-label=${moment.place.tab === "table" ? "controller" : `controller epoch ${m.ensemble.epoch}`}>controller <b>${controllerTerm(m.ensemble.id, m.ensemble.epoch)}</b>${m.ensemble.stale ? html` <i class="warn">${lastKnown(m.ensemble)}</i>` : nothing}</span>
      <span title=${meaning("ZAB")}>ZAB leader <b>${m.zab.known ? leaderTerm(m.zab.leader_id, m.zab.epoch) : "unknown"}</b>${m.silent_ms === null ? nothing : html` <i class="warn">${lastKnown({ age_ms: m.silent_ms })}</i>`}</span>
      ${source().live ? html`<a href="/docs">API</a>` : nothing}${more}</p></nav>`;
}
