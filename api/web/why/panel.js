// Why something happened: from the shown event back along the recorded causes, each step with its rule.

import { html, nothing } from "lit-html";

import { duration } from "../format.js";
import { partsText } from "../gaps.js";
import { source } from "../source/source.js";
import { hash } from "../time/hash.js";
import { icon, panel } from "../views/parts.js";
import { Answers } from "./answers.js";
import { ruled } from "./rule.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("./rule.js").Rule} Rule
 * @typedef {"fault" | "request" | "timer" | "start" | "unknown"} End
 * @typedef {{seq: number, event: import("../fold.js").Entry, told: string, rule: Rule | null, end?: End | null, says?: string | null,
 *   controller_gap?: {gap_before_ms: number, detection_ms: number | null, election_ms: number, loading_ms: number} | null}} Step
 *   One step of a chain; the last has the kind of the first cause, and its reference if no event belongs to it.
 */

/** @type {Record<End, string>} */
const ENDS = {
  fault: "First cause: this fault.", request: "First cause: this request.", start: "First cause: the start of this process.",
  timer: "Triggered by a timeout.", unknown: "Earlier causes are not known.",
};

// A user who steps through a run does not need the causes of each event on the way.
const REST_MS = 150;

const answers = new Answers();
let requested = "";
let restedAt = 0;

/** @param {State} _state @param {Moment} moment @param {() => void} changed */
export function whyPanel(_state, moment, changed) {
  const { run, seq, live } = moment.current();
  if (live) return nothing;
  const aside = html`<span class="sum">from the effect back to its cause</span>`;
  return panel("why", "Why", aside, rested(run, seq, changed) ? chain(run, seq, moment, changed) : html`<p class="quiet">…</p>`);
}

/** Whether that event has been shown for long enough to load its causes. @param {string} run @param {number} seq @param {() => void} changed */
function rested(run, seq, changed) {
  const path = whyPath(run, seq);
  if (answers.kept.has(path)) return true;
  const now = performance.now();
  if (path !== requested) {
    requested = path;
    restedAt = now + REST_MS;
    setTimeout(changed, REST_MS + 1);
  }
  return now >= restedAt;
}

/** @param {string} run @param {number} seq */
const whyPath = (run, seq) => `/runs/${run}/why?seq=${seq}`;

/** @param {string} run @param {number} seq @param {Moment} moment @param {() => void} changed */
function chain(run, seq, moment, changed) {
  const answer = answers.of(whyPath(run, seq), changed, () => source().why(run, seq));
  if (answer.state === "loading") return html`<p class="quiet">…</p>`;
  if (answer.state === "failed") return html`<p class="quiet">${icon("empty")} Cannot show the causes: ${answer.message}.</p>`;
  return steps(answer.value, moment);
}

/** @param {NonNullable<Step["controller_gap"]>} gap */
function gapText({ gap_before_ms, detection_ms, election_ms, loading_ms }) {
  const parts = { detection_us: detection_ms === null ? null : detection_ms * 1000, election_us: election_ms * 1000, loading_us: loading_ms * 1000 };
  return `No controller for ${duration(gap_before_ms)} before: ${partsText(parts)}.`;
}

/** The chain as a list; each step links to its moment. @param {Step[]} told @param {Moment} moment */
export function steps(told, moment) {
  const effect = told[0]?.event;
  const { end, says } = told.at(-1) ?? {};
  return html`<ol class="chain" aria-label="From the effect back to its cause">${told.map((step, place) => {
    const { event } = step;
    const before_ms = effect ? Math.round((effect.wall_us - event.wall_us) / 1000) : 0;
    const when = place === 0 ? "this" : before_ms === 0 ? "same ms" : before_ms < 0 ? `+${duration(-before_ms)}` : `−${duration(before_ms)}`;
    return html`<li class=${place === 0 ? "effect" : ""}><span class="ago">${when}</span>
      <p><a href=${hash({ ...moment.place, at: step.seq })} aria-current=${place === 0 ? "true" : nothing}><b>${event.node}</b> ${step.told}</a></p>
      ${ruled(step.rule)}${step.controller_gap ? html`<p class="quiet gap">${gapText(step.controller_gap)}</p>` : nothing}</li>`;
  })}${end ? html`<li class="end"><p>${says && end !== "timer" ? html`${says}. ` : nothing}${ENDS[end]}</p></li>` : nothing}</ol>`;
}
