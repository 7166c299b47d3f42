// The dialog that shows what would happen to the live cluster if a node died: a distribution over simulated futures.

import { html, nothing } from "lit-html";
import { ref } from "lit-html/directives/ref.js";

import { clockShort, duration, plural } from "../format.js";
import { openModal } from "./page.js";
import { icon } from "./parts.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {{median_ms: number | null, p90_ms: number | null, longest_ms: number | null, never: number}} Times
 * @typedef {{futures: number, acks: string, horizon_ms: number, lost: {count: number, low: number, high: number}, controller: Times,
 *   writable: Times, quorum: Times, unwritable: Record<string, number>, problems: number, limits: string[]}} Forecast
 * @typedef {{node: string, acks: string, asked: any, error: string}} WhatIf  `asked`: the last response of /what-if; null before the first.
 */

const OLD_MS = 30_000;

/** @param {WhatIf} found @param {Actions} actions @param {number} now_ms */
export function whatIf(found, actions, now_ms) {
  const { node, asked, error } = found;
  const spoken = node.replace("-", " ");
  const ended = error !== "" || asked?.state === "ended";
  const close = () => actions.closeWhatIf();
  const again = (/** @type {string} */ acks) => void actions.askWhatIf(node, acks);
  return html`<dialog class="dialog forecast" aria-labelledby="what-if-title" ${ref(openModal)} @close=${close} aria-busy=${!ended}>
    <h2 id="what-if-title">What if ${spoken} died now?</h2>
    ${asked ? readAt(asked, now_ms) : html`<p class="quiet">${error ? nothing : "Reading the live state…"}</p>`}
    ${error || asked?.error ? html`<p class="bad" role="alert">${icon("bad")} There is no answer: ${error || asked.error}.</p>` : nothing}
    ${progress(asked, ended)}${asked?.forecast ? distribution(asked.forecast, spoken) : nothing}
    <p class="row"><button type="button" class="primary" autofocus @click=${close}>Close</button>
      <button type="button" ?disabled=${!ended} @click=${() => again("all")}>Ask again</button>
      <button type="button" ?disabled=${!ended} title="Producers that wait for the leader only lose records more easily" @click=${() => again("1")}>Ask with acks=1</button></p>
  </dialog>`;
}

/** The time at which the live state was read: an old answer is never shown as current. @param {any} asked @param {number} now_ms */
function readAt(asked, now_ms) {
  const age_ms = Math.max(0, now_ms - asked.read_at_us / 1000);
  const old = age_ms > OLD_MS;
  return html`<p class=${old ? "warn" : "quiet"}>${old ? html`${icon("warn")} ` : nothing}Live state read at <time>${clockShort(asked.read_at_us)}</time>, event ${asked.seq}, ${duration(age_ms)} ago${
    old ? ": the cluster may have changed since" : ""}.</p>`;
}

/** @param {any} asked @param {boolean} ended */
function progress(asked, ended) {
  const futures = asked?.forecast?.futures ?? 0;
  if (ended) return nothing;
  return html`<p role="status">${icon("hourglass")} ${asked ? `${plural(futures, "future")} so far` : "…"}; the answer is complete after about ${asked?.budget_s ?? 8} s.</p>`;
}

/** @param {Forecast} forecast @param {string} spoken */
function distribution(forecast, spoken) {
  const { futures, lost, unwritable } = forecast;
  const stuck = Object.entries(unwritable);
  const percent = (/** @type {number} */ share) => Math.round(100 * share);
  const row = (/** @type {string} */ title, /** @type {unknown} */ value, tone = "") => html`<div class=${tone}><dt>${title}</dt><dd>${value}</dd></div>`;
  return html`<p><b>${plural(futures, "future")}</b> in a simulated world, with producers that use acks=${forecast.acks}.</p>
    <dl class="outlook">
      ${row("acknowledged records are lost", html`${lost.count} of ${futures} <span class="quiet">(${percent(lost.low)} to ${percent(lost.high)} %)</span>`, lost.count ? "bad" : "")}
      ${row("a controller exists after", times(forecast.controller, futures))}
      ${row("all partitions are writable after", times(forecast.writable, futures), forecast.writable.never ? "warn" : "")}
      ${row("the ensemble has a quorum after", times(forecast.quorum, futures), forecast.quorum.never ? "warn" : "")}</dl>
    ${stuck.length ? html`<ul class="stuck" aria-label="Partitions that wait for ${spoken}">${stuck.map(([name, count]) => html`<li>${icon("warn")} <b>${name}</b> is not writable until ${spoken} returns${
      count < futures ? `, in ${count} of ${futures}` : ""}</li>`)}</ul>` : nothing}
    ${forecast.problems ? html`<p class="bad">${icon("bad")} An invariant is violated in ${plural(forecast.problems, "future")}: please report this.</p>` : nothing}
    <details><summary>Not included in the forecast</summary><ul>${forecast.limits.map((limit) => html`<li>${limit}</li>`)}</ul></details>`;
}

/** A distribution of times in words. @param {Times} found @param {number} futures */
export function times({ median_ms, p90_ms, longest_ms, never }, futures) {
  if (never === futures) return "never in any future";
  if (longest_ms === 0 && never === 0) return "no interruption";
  const one = (/** @type {number | null} */ ms) => (ms === null ? "never" : `${(ms / 1000).toFixed(1)}\u00a0s`);
  return `median ${one(median_ms)}, 90 % ${one(p90_ms)}, longest ${one(longest_ms)}${never ? `, never in ${never}` : ""}`;
}
