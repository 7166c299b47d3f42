// Jobs: the stream, an audit and a campaign, started and stopped by buttons, with the end of their output.

import { html, nothing } from "lit-html";
import { live } from "lit-html/directives/live.js";

import { requests } from "../actions.js";
import { duration } from "../format.js";
import { badge, send, submit } from "../views/parts.js";
import { fresh } from "./fresh.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {"stream" | "audit" | "campaign"} Kind
 * @typedef {{kind: Kind, state: "idle" | "running" | "stopping" | "ended", command: string | null, started_ms: number | null,
 *   ended_ms: number | null, exit_code: number | null, stopped: boolean, tail: string[]}} Job
 */

const JOBS_MS = 1000;
const NAME = "session-timeout";
const DEFINITION = `question = "Which zookeeper.session.timeout.ms?"
scenario = "chaos"
seeds = "1-8"
decide = "failover_ms"
also = ["client_availability"]

[settings]
"faults.kinds" = "crash_broker:1,pause:1"

[grid]
"zookeeper.session.timeout.ms" = [6000, 18000]
`;

/** The texts of the campaign's form. */
const written = { name: NAME, definition: DEFINITION };

/** @param {Kind} kind @param {() => void} changed @returns {Job | null} */
function jobOf(kind, changed) {
  const asked = fresh("/jobs", JOBS_MS, changed);
  return asked.state === "ready" ? asked.value.find((/** @type {Job} */ job) => job.kind === kind) : null;
}

/** @param {Job | null} job */
const runs = (job) => job?.state === "running" || job?.state === "stopping";

/** A button that starts the job, or the running job. @param {Kind} kind @param {string} start @param {Actions} actions @param {() => void} changed */
export function jobView(kind, start, actions, changed) {
  const job = jobOf(kind, changed);
  return html`<div class="job" role="group" aria-label="Job ${kind}">${runs(job) ? nothing
    : html`<p class="row">${send(actions, requests.startJob(kind), start, { disabled: job === null })}</p>`}${standing(job, actions)}</div>`;
}

/** The state of a job, its progress and its output. @param {Job | null} job @param {Actions} actions */
function standing(job, actions) {
  if (job === null || job.state === "idle") return nothing;
  const { kind, state, started_ms, ended_ms, tail, command } = job;
  const took = duration((ended_ms ?? Date.now()) - (started_ms ?? 0));
  const first = runs(job) ? html`${badge("running", state === "stopping" ? "stopping" : "running")} <progress aria-label="The ${kind} runs"></progress> <span class="quiet">${took}</span>
    ${send(actions, requests.stopJob(kind), "Stop", { name: `Stop the ${kind}`, tone: "danger", disabled: state === "stopping" })}` : html`${result(job)} <span class="quiet">after ${took}</span>`;
  return html`<p class="row" role="status">${first}</p>
    <details ?open=${runs(job) || ended(job)}><summary><code>${command}</code></summary>${tail.length
    ? html`<pre class="tail" tabindex="0" role="region" aria-label="Output of the ${kind}">${tail.join("\n")}</pre>` : html`<p class="quiet">No output yet.</p>`}</details>`;
}

/** Whether the job has failed. @param {Job} job */
const ended = ({ stopped, exit_code }) => !stopped && exit_code !== 0;

/** @param {Job} job */
function result({ stopped, exit_code, kind }) {
  if (stopped) return badge("paused", "stopped");
  if (exit_code === 0) return badge("ok", "completed");
  if (exit_code === 1 && kind !== "stream") return badge("bad", "exit code 1: see the output", "bad");
  return badge("bad", exit_code !== null && exit_code < 0 ? `ended by signal ${-exit_code}` : `failed, exit code ${exit_code}`, "bad");
}

/** The form that starts a campaign, or the running campaign. @param {Actions} actions @param {() => void} changed */
export function campaignForm(actions, changed) {
  const job = jobOf("campaign", changed);
  const start = submit((fields) => void actions.send(requests.startJob("campaign", { name: fields.name, definition: fields.definition })));
  const keep = (/** @type {Event} */ event) => {
    const { name, value } = /** @type {HTMLInputElement} */ (event.target);
    if (name === "name" || name === "definition") written[name] = value;
  };
  return html`<div class="job" role="group" aria-label="Job campaign">${runs(job) ? nothing : html`<details class="new"><summary>Start a campaign</summary>
    <form aria-label="Start a campaign" @submit=${start} @input=${keep}>
      <label class="field"><span>name; the same name continues it</span><input name="name" required pattern="[a-z0-9][a-z0-9\\-]{0,60}" .value=${live(written.name)} autocomplete="off"></label>
      <label class="field"><span>definition (TOML)</span><textarea name="definition" required rows="12" maxlength="20000" spellcheck="false" .value=${live(written.definition)}></textarea></label>
      <button class="primary" ?disabled=${actions.off !== "" || job === null}>Start campaign</button></form></details>`}${standing(job, actions)}</div>`;
}
