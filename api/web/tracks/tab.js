// The tracks: all events on one clock.

import { html, nothing } from "lit-html";
import { ref } from "lit-html/directives/ref.js";

import { clock, clockShort, controllerTerm, lastKnown } from "../format.js";
import { usersTopics } from "../model.js";
import { FOLDED_ABOVE } from "../partition_filter.js";
import { sentence } from "../sentences.js";
import { begin } from "../views/begin.js";
import { icon, panel } from "../views/parts.js";
import { courseButton, coursePlot } from "./course.js";
import { Stage } from "./stage.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../time/moment.js").Moment} Moment
 */

/** @type {Stage | null} */
let stage = null;

/** The drawing, for the tests. */
export const theStage = () => stage;

/** @type {import("../tabs.js").View} */
export function view(state, m, moment, changed, actions) {
  const { timeline } = moment;
  stage ??= new Stage(moment, timeline);
  const history = timeline.history();
  timeline.reach();
  stage.show(state, m);
  const { live, first_seq, last_seq, seq, at_us } = moment.current();
  const hint = html`<span class="sum hint">click or drag to go to a moment, scroll to zoom</span>`;
  const empty = live && state.known && m.brokers.length > 0 && usersTopics(m.topics).length === 0;
  const body = html`
    ${empty ? begin(m, moment, actions) : nothing}${filters(state, m, changed)}
    <div class="overview"><canvas ${ref(stage.setOverview)} aria-hidden="true"></canvas></div>
    <div class="tracks-frame">
      <div class="tracks-view" ${ref(stage.setView)} role="slider" tabindex="0" aria-label="Moment" aria-orientation="horizontal"
        aria-valuemin=${first_seq} aria-valuemax=${Math.max(first_seq, last_seq)} aria-valuenow=${seq} aria-valuetext=${spoken(state, m, moment)}
        @keydown=${(/** @type {KeyboardEvent} */ e) => key(e, moment)}>
        <div class="tracks-space"><div class="tracks-stick"><canvas ${ref(stage.setCanvas)} aria-hidden="true"></canvas>
          <div class="pin" hidden><i>A</i></div>
          <div class="cursor" hidden><i>${live ? "" : clock(at_us)}</i></div></div></div>
      </div>
      <div class="tip" hidden></div>
      ${history.merged_us ? html`<p class="quiet merged">Before ${clock(history.merged_us)} the history is too long to show every event: short spans are merged and marks are left out.</p>` : nothing}
      ${history.spans === null ? html`<p class="quiet waits">${history.trouble ? html`${icon("warn")} Cannot read the history: ${history.trouble}.` : "Loading the history…"}</p>` : nothing}
    </div>
    ${coursePlot(moment, actions, stage.window?.gutter ?? 0)}${legend()}`;
  return panel("tracks", "Tracks", html`${hint}${courseButton(moment, actions)}${zooms(state, moment, changed)}`, body);
}

/** @param {State} state @param {Moment} moment @param {() => void} changed */
function zooms({ ui }, { timeline }, changed) {
  const toggle = () => {
    ui.offsets = !ui.offsets;
    changed();
  };
  return html`<span class="zooms" role="group" aria-label="Display options"><button type="button" class="small" aria-pressed=${ui.offsets ? "true" : "false"}
      title="Show each replica's log end offset and high watermark at this moment (o)" @click=${toggle}>Log end offsets</button>
    <button type="button" class="small" aria-label="Zoom in" title="Zoom in (+)" @click=${() => timeline.zoom(0.5)}>+</button>
    <button type="button" class="small" aria-label="Zoom out" title="Zoom out (−)" @click=${() => timeline.zoom(2)}>−</button>
    <button type="button" class="small" title="Show the whole recording (key 0)" @click=${() => timeline.fit()}>All</button></span>`;
}

/** The filter of partitions with lanes; shown if there are many. @param {State} state @param {Model} m @param {() => void} changed */
function filters(state, m, changed) {
  const wanted = state.ui.partitions;
  const all = m.topics.reduce((sum, topic) => sum + topic.partitions.length, 0);
  if (all <= FOLDED_ABOVE && !wanted.filter && !wanted.trouble) return nothing;
  const set = (/** @type {Partial<typeof wanted>} */ to) => {
    Object.assign(wanted, { pages: new Map(), ...to });
    changed();
  };
  const many = m.topics.filter((topic) => topic.partitions.length > FOLDED_ABOVE);
  return html`<div class="row find" role="search" aria-label="Lanes of partitions">
    <input type="search" aria-label="Filter topics and partitions" placeholder="filter: orders, orders-0" .value=${wanted.filter}
      @input=${(/** @type {Event} */ e) => set({ filter: /** @type {HTMLInputElement} */ (e.target).value })}>
    <label class="field check"><input type="checkbox" .checked=${wanted.trouble}
      @change=${(/** @type {Event} */ e) => set({ trouble: /** @type {HTMLInputElement} */ (e.target).checked })}><span>with problems only</span></label>
    ${many.slice(0, 6).map(({ name, partitions }) => {
      const open = wanted.unfolded.get(name) ?? false;
      return html`<button type="button" class="small" aria-expanded=${open ? "true" : "false"}
        @click=${() => set({ unfolded: new Map(wanted.unfolded).set(name, !open) })}>${open ? "Collapse" : "Expand"} ${name} (${partitions.length})</button>`;
    })}</div>`;
}

/** The moment in words for screen readers. @param {State} state @param {Model} m @param {Moment} moment */
function spoken(state, m, moment) {
  const { live, seq, at_us } = moment.current();
  const stands = `controller ${controllerTerm(m.ensemble.id, m.ensemble.epoch)}${m.ensemble.stale ? `, ${lastKnown(m.ensemble)}` : ""}, ${m.health.word}${m.health.reasons.length ? `: ${m.health.reasons.map((r) => r.text).join(", ")}` : ""}`;
  if (live) return `live; ${stands}`;
  const entry = moment.entry();
  const sentenceText = entry === null ? "" : `: ${entry.node} ${sentence(state.sentences, entry)}`;
  return `${clockShort(at_us)}, event ${seq}${sentenceText}; ${stands}`;
}

/** @param {KeyboardEvent} event @param {Moment} moment */
function key(event, moment) {
  const { timeline } = moment;
  /** @type {Record<string, () => void>} */
  const keys = {
    PageUp: () => timeline.pan(-0.5), PageDown: () => timeline.pan(0.5),
  };
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
}

const LEGEND = [
  ["leader", "leader or controller"], ["in", "in sync"], ["out", "out of sync"], ["dead", "dead, session not expired yet"], ["wrong", "wrong about the controller"],
  ["none", "no controller / no leader"], ["held", "last stable offset held back"],
];

function legend() {
  return html`<ul class="legend" aria-label="Legend">${LEGEND.map(([kind, text]) => html`<li><i class=${kind}></i>${text}</li>`)}
    <li><b class="bad">✕</b> down</li><li>${icon("hourglass")}session expired</li><li>${icon("shield")}fenced</li><li><b class="bad">◆</b> committed records lost</li><li><b class="quiet">|</b> uncommitted records truncated</li></ul>`;
}
