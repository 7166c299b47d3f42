// Two runs side by side on one axis, such as a scenario with and without its bug: their first difference and its rule.

import { html, nothing } from "lit-html";

import { count } from "../format.js";
import { sentence } from "../sentences.js";
import { source } from "../source/source.js";
import { hash } from "../time/hash.js";
import { readStory } from "../time/run.js";
import { runLabel } from "../time/run_label.js";
import { icon, panel, select } from "../views/parts.js";
import { Answers } from "../why/answers.js";
import { ruled } from "../why/rule.js";
import { align } from "./align.js";
import { axis } from "./axis.js";

/**
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../time/run.js").RunInfo} RunInfo
 * @typedef {import("../store.js").State} State
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {{seq: number, event: Entry} | null} At
 * @typedef {import("../why/panel.js").Step} Step
 * @typedef {{same: boolean, at: {a: At, b: At}, why: {a: Step[] | null, b: Step[] | null}}} Divergence
 * @typedef {import("./align.js").Row} Row
 * @typedef {import("./align.js").Side} Side
 */

const answers = new Answers();
/** The number of events of each run that are compared side by side. */
const EVENTS_MAX = 100_000;
/** The spans of the axis. */
const BINS = 900;
const LANES = ["controller", "isr"];
/** Event types that are not part of a story. */
const UNTOLD = ["txn_committed", "txn_logged", "txn_proposed", "records_replicated", "records_appended", "records_acknowledged", "high_watermark_moved",
  "replica_progressed", "write_acknowledged"];

/** @type {import("../tabs.js").View} */
export function view(state, _m, moment, changed) {
  const { run, with: other } = moment.place;
  if (other === null || other === run) return panel("compare", "Compare", nothing, chooser(moment));
  const [a, b] = [run, other].map((id) => moment.runs.find((each) => each.id === id) ?? null);
  if (!a || !b) return panel("compare", "Compare", nothing, html`<p class="quiet">${icon("empty")} One of these runs is no longer stored.</p>${chooser(moment)}`);
  return panel("compare", "Side by side", html`<span class="sum">one axis: time since the start of each run</span>`, compared(state, a, b, moment, changed));
}

/** @param {Moment} moment */
function chooser(moment) {
  const others = moment.runs.filter((each) => each.id !== moment.place.run);
  if (others.length === 0) return html`<p class="quiet">There is only one run. Play a scenario in the Lab: its runs with and without the bug are stored.</p>`;
  const pair = moment.runs.find((each) => each.id === moment.place.run)?.pair ?? "";
  return html`<div class="row">${select("compare", "with", "compare with", [{ value: "", text: "choose a run" },
    ...others.map((each) => ({ value: each.id, text: runLabel(each) }))], "", (value) => value && moment.go({ with: value, tab: "compare" }))}
    ${pair ? html`<button type="button" @click=${() => moment.go({ with: pair, tab: "compare" })}>Compare with the other run of the pair</button>` : nothing}</div>`;
}

/** @param {RunInfo} run */
const title = (run) => `${run.of ?? run.title}${run.variant ? `, ${run.variant}` : ""}`;

/** @param {State} state @param {RunInfo} a @param {RunInfo} b @param {Moment} moment @param {() => void} changed */
function compared(state, a, b, moment, changed) {
  const parted = answers.of(`/runs/${a.id}/divergence?from=${b.id}`, changed, () => source().divergence(a.id, b.id));
  if (parted.state === "loading") return html`<p class="quiet">Comparing…</p>`;
  if (parted.state === "failed") return html`<p class="quiet">${icon("empty")} Cannot compare these runs: ${parted.message}.</p>`;
  /** @type {Divergence} */
  const divergence = parted.value;
  const stories = [a, b].map((run) => answers.of(`/runs/${run.id}/journal`, changed, () => readStory(run.id, UNTOLD, EVENTS_MAX)));
  return html`<div class="side-by-side">${explained(state, divergence, a, b, moment)}${tracks(a, b, divergence, changed)}
    ${storiesView(state, stories, divergence, [a, b], moment, changed)}</div>`;
}

/**
 * Both stories, as far as they are loaded.
 * @param {State} state @param {import("../why/answers.js").Answer[]} stories @param {Divergence} divergence @param {RunInfo[]} runs
 * @param {Moment} moment @param {() => void} changed
 */
function storiesView(state, [of_a, of_b], divergence, [a, b], moment, changed) {
  const failed = [of_a, of_b].find((each) => each.state === "failed");
  if (failed) return html`<p class="quiet">${icon("empty")} Cannot read the events of these runs: ${failed.message}.</p>`;
  if (of_a.state !== "ready" || of_b.state !== "ready") return html`<p class="quiet">Loading…</p>`;
  const rows = rowsOf(state, of_a.value.entries, of_b.value.entries, a, b);
  const cut = of_a.value.whole && of_b.value.whole ? nothing
    : html`<p class="warn">${icon("warn")} These runs are long: only the first ${count(EVENTS_MAX)} events of each are listed. The first difference above was searched in the whole runs.</p>`;
  const thinned = [[a, of_a.value], [b, of_b.value]].filter(([, story]) => story.first_seq > 1)
    .map(([run, story]) => html`<p class="quiet">${icon("empty")} The oldest events of ${title(run)} are no longer stored: the list starts at event ${story.first_seq}.</p>`);
  return html`${cut}${thinned}${lists(rows, firstDifference(rows, divergence), a, b, moment, changed)}`;
}

/** @type {{key: string, of: Entry[][], rows: Row[]}} */
let kept = { key: "", of: [], rows: [] };

/** @param {State} state @param {Entry[]} of_a @param {Entry[]} of_b @param {RunInfo} a @param {RunInfo} b */
function rowsOf(state, of_a, of_b, a, b) {
  const key = `${a.id} ${b.id} ${Object.keys(state.sentences).length}`;
  if (kept.key !== key || kept.of[0] !== of_a || kept.of[1] !== of_b) {
    kept = { key, of: [of_a, of_b], rows: align(state.sentences, of_a, of_b, { a: a.first_us, b: b.first_us }) };
    shown_rows = ROWS;
  }
  return kept.rows;
}

/** The row of the first difference, or the first visible row after it. @param {Row[]} rows @param {Divergence} divergence */
function firstDifference(rows, { same, at }) {
  if (same) return -1;
  return rows.findIndex((row) => (at.a !== null && row.a !== null && row.a.seq >= at.a.seq) || (at.b !== null && row.b !== null && row.b.seq >= at.b.seq));
}

/** @param {State} state @param {Divergence} divergence @param {RunInfo} a @param {RunInfo} b @param {Moment} moment */
function explained(state, divergence, a, b, moment) {
  if (divergence.same) return html`<p class="parted">${icon("ok")} The runs are the same, from the first event to the last.</p>`;
  const sides = /** @type {const} */ ([[a, divergence.at.a, divergence.why.a, b], [b, divergence.at.b, divergence.why.b, a]]);
  return html`<section class="parted" aria-label="First difference"><h3>${icon("warn")} First difference that leads to the outcome</h3>
    ${sides.map(([run, at, why, other]) => {
    if (at === null) return html`<p><b>${title(run)}</b>: no such event</p>`;
    return html`<div><p><b>${title(run)}</b>, ${seconds(at.event.wall_us - run.first_us)}:
      <a href=${hash({ ...moment.place, run: run.id, at: at.seq, with: other.id, tab: "compare" })}><b>${at.event.node}</b> ${sentence(state.sentences, at.event)}</a></p>${ruled(why?.[0]?.rule ?? null)}</div>`;
  })}</section>`;
}

/** @param {RunInfo} a @param {RunInfo} b @param {Divergence} divergence @param {() => void} changed */
function tracks(a, b, { at }, changed) {
  const [of_a, of_b] = [a, b].map((run) => answers.of(`/runs/${run.id}/spans`, changed, () => source().spans(run.id, BINS, LANES)));
  if (of_a.state !== "ready" || of_b.state !== "ready") return nothing;
  return axis(of_a.value, of_b.value, { a: title(a), b: title(b) }, {
    a_us: at.a === null ? null : at.a.event.wall_us - a.first_us, b_us: at.b === null ? null : at.b.event.wall_us - b.first_us,
  });
}

/** Whether the equal rows before the first difference are shown as well. */
let whole = false;
const BEFORE = 3;
/** The number of rows at first, and of further rows on each request. */
const ROWS = 400;
let shown_rows = ROWS;

/** @param {Row[]} rows @param {number} first @param {RunInfo} a @param {RunInfo} b @param {Moment} moment @param {() => void} changed */
function lists(rows, first, a, b, moment, changed) {
  const hidden = whole ? 0 : Math.max(0, first - BEFORE);
  const end = Math.min(rows.length, hidden + shown_rows);
  const toggle = () => {
    whole = !whole;
    changed();
  };
  const more = () => {
    shown_rows += ROWS;
    changed();
  };
  const cell = (/** @type {Side | null} */ side, /** @type {RunInfo} */ run, /** @type {RunInfo} */ other, /** @type {Row} */ row, /** @type {number} */ i) => {
    const differs = row.a === null || row.b === null;
    return html`<div class="${differs ? "differs" : ""} ${i === first ? "first" : ""} ${side?.weight === "loss" ? "bad-news" : ""}">${side === null ? nothing
      : html`<a href=${hash({ ...moment.place, run: run.id, at: side.seq, with: other.id, tab: "compare" })}><b>${side.node}</b> ${side.told}</a>`}</div>`;
  };
  const earlier = first > BEFORE ? html`<button type="button" class="small earlier" aria-pressed=${whole} @click=${toggle}>
    ${whole ? "Start at the first difference" : `Show the ${first - BEFORE} identical lines before`}</button>` : nothing;
  return html`${earlier}<div class="two-lists" tabindex="0" role="region" aria-label="Events of both runs, side by side">
    <div class="head"></div><div class="head">${title(a)}</div><div class="head">${title(b)}</div>
    ${rows.slice(hidden, end).map((row, i) => html`<time>${seconds(row.at_us)}</time>${cell(row.a, a, b, row, hidden + i)}${cell(row.b, b, a, row, hidden + i)}`)}</div>
    ${end < rows.length ? html`<button type="button" class="small" @click=${more}>Show ${Math.min(ROWS, rows.length - end)} more of ${count(rows.length - end)} lines</button>` : nothing}`;
}

/** @param {number} us */
const seconds = (us) => `${(us / 1e6).toFixed(3)} s`;
