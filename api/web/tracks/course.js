// How likely a loss was at each moment of a simulated run, on the time axis of the tracks: the share of futures that lose
// acknowledged records.

import { html, nothing, svg } from "lit-html";

import { requests } from "../actions.js";
import { clock, plural } from "../format.js";
import { source } from "../source/source.js";
import { forkable } from "../time/run.js";
import { icon } from "../views/parts.js";
import { xOf } from "./scale.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {{at_us: number, losing: number, low: number, high: number, writable_us: number | null}} Point
 * @typedef {{futures: number, moments: number, points: Point[], loss_us: number | null, certain_us: number | null}} Plot
 * @typedef {{run: string, found: any, error: string}} Course  `found`: the last response; null before the first.
 */

const HEIGHT = 100;
/** Part of the width after which the name of a line stands at its left. */
const RIGHT = 0.72;

/** Begins to play the course. @param {Moment} moment @param {Actions} actions */
export function courseButton(moment, actions) {
  // A past moment's state has no course, because it is computed from the journal.
  const { course } = actions.state;
  const { run, live, info } = moment.current();
  if (!source().live || live || !forkable(info)) return nothing;
  const busy = course !== null && !course.error && course.found?.state !== "ended";
  return html`<button type="button" class="small" title="Play possible futures from moments of this run" ?disabled=${busy || !actions.allows(requests.playCourse(run))}
    @click=${() => void actions.playCourse(run)}>How likely was a loss?</button>`;
}

/** @param {Moment} moment @param {Actions} actions @param {number} gutter in pixels, as of the tracks */
export function coursePlot(moment, actions, gutter) {
  const { course } = actions.state;
  if (course === null || course.run !== moment.current().run) return nothing;
  const { run, found, error } = course;
  /** @type {Plot | null} */
  const plot = found?.plot ?? null;
  const trouble = error || found?.error;
  const running = !error && found?.state !== "ended";
  const played = plot?.points.length ?? 0;
  return html`<section class="course" aria-label="Probability of a loss">
    ${running ? html`<p role="status">${icon("hourglass")} ${plot ? `${played} of ${plural(plot.moments, "moment")} played, ${plural(plot.futures, "future")} each` : "Playing the run again"}…
      <button type="button" class="small" @click=${() => void actions.send(requests.stopCourse(run))}>Stop</button></p>` : nothing}
    ${trouble ? html`<p class="bad" role="alert">${icon("bad")} Not complete: ${trouble}.</p>` : nothing}
    ${!running && plot ? html`<p>${verdict(plot, !trouble)}</p>` : nothing}
    ${plot && played ? html`${drawing(plot, moment, gutter)}${table(plot, moment)}` : nothing}</section>`;
}

/** The result in a sentence. @param {Plot} plot @param {boolean} complete */
export function verdict({ points, futures, loss_us, certain_us }, complete) {
  const loss = loss_us === null ? "The run itself loses no committed records." : `The run itself loses committed records at ${clock(loss_us)}.`;
  if (certain_us !== null) return `From ${clock(certain_us)} on, the loss was certain: each of ${futures} futures loses acknowledged records. ${loss}`;
  return `${points.some((each) => each.losing) || !complete ? "" : "No future loses acknowledged records. "}${loss}`;
}

/** A point in words. @param {Point} point @param {number} futures */
export const spoken = ({ at_us, losing, low, high }, futures) =>
  `${clock(at_us)}: ${losing} of ${plural(futures, "future")} lose${futures === 1 ? "s" : ""} acknowledged records (${Math.round(100 * low)} to ${Math.round(100 * high)} %)`;

/** The point that is nearest to a time. @param {Point[]} points @param {number} at_us */
export const nearest = (points, at_us) =>
  points.reduce((best, each, place) => (Math.abs(each.at_us - at_us) < Math.abs(points[best].at_us - at_us) ? place : best), 0);

/** Go to the last event before a moment of the plot. @param {Moment} moment @param {number} at_us */
function seek(moment, at_us) {
  const history = moment.timeline.history();
  const place = history.placeAt(at_us) ?? history.places[0];
  if (place) moment.scrub(place.seq);
}

/** @param {Plot} plot @param {Moment} moment @param {number} gutter */
function drawing({ points, futures, certain_us, loss_us }, moment, gutter) {
  const of = { ...moment.timeline.window(), width: 1, gutter: 0 };
  const x = (/** @type {number} */ at_us) => xOf(of, at_us);
  const y = (/** @type {number} */ share) => HEIGHT * (0.94 - 0.88 * share);
  const share = (/** @type {Point} */ { losing }) => losing / futures;
  const here = nearest(points, moment.current().at_us);
  const line = points.map((each) => `${(1000 * x(each.at_us)).toFixed(1)},${y(share(each)).toFixed(1)}`).join(" ");
  const band = [...points.map((each) => [each.at_us, each.high]), ...points.toReversed().map((each) => [each.at_us, each.low])]
    .map(([at_us, part]) => `${(1000 * x(at_us)).toFixed(1)},${y(part).toFixed(1)}`).join(" ");
  const go = (/** @type {number} */ place) => seek(moment, points[Math.min(Math.max(place, 0), points.length - 1)].at_us);
  const key = (/** @type {KeyboardEvent} */ event) => {
    /** @type {Record<string, number>} */
    const places = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: points.length - 1, Enter: here };
    if (!Object.hasOwn(places, event.key)) return;
    event.preventDefault();
    go(places[event.key]);
  };
  const click = (/** @type {MouseEvent} */ event) => {
    const { left, width } = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    go(nearest(points, of.from_us + ((event.clientX - left) / width) * (of.to_us - of.from_us)));
  };
  const mark = (/** @type {number | null} */ at_us, /** @type {string} */ name) =>
    at_us === null || x(at_us) < 0 || x(at_us) > 1 ? nothing : html`<b class=${x(at_us) > RIGHT ? "left" : ""} .style=${`left:${(100 * x(at_us)).toFixed(2)}%`}><span>${name}</span></b>`;
  return html`<div class="plot" .style=${`margin-left:${Math.max(0, gutter - 12)}px`} role="slider" tabindex="0" aria-label="Share of futures that lose records" aria-orientation="horizontal"
      aria-valuemin="1" aria-valuemax=${points.length} aria-valuenow=${here + 1} aria-valuetext=${spoken(points[here], futures)} @keydown=${key} @click=${click}>
    ${svg`<svg viewBox="0 0 1000 ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true"><polygon class="band" points=${band}></polygon><polyline class="share" points=${line}></polyline></svg>`}
    ${certain_us === null ? mark(loss_us, "loss") : mark(certain_us, "loss certain")}
    ${points.map((each, place) => html`<i class=${place === here ? "here" : ""} title=${spoken(each, futures)} .style=${`left:${(100 * x(each.at_us)).toFixed(2)}%;top:${y(share(each)).toFixed(1)}%`}></i>`)}</div>`;
}

/** The points as a table, for readers who do not see the plot. @param {Plot} plot @param {Moment} moment */
function table({ points, futures }, moment) {
  return html`<details><summary>All moments as a table</summary><div tabindex="0" role="region" aria-label="Moments and their futures"><table>
    <thead><tr><th scope="col">moment</th><th scope="col">lose records</th><th scope="col">95 % interval</th></tr></thead>
    <tbody>${points.map((each) => html`<tr><td><button type="button" class="small" @click=${() => seek(moment, each.at_us)}>${clock(each.at_us)}</button></td>
      <td>${each.losing} of ${futures}</td><td>${Math.round(100 * each.low)} to ${Math.round(100 * each.high)} %</td></tr>`)}</tbody></table></div></details>`;
}
