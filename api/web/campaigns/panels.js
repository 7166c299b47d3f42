// Spark's results from journals and simulated worlds: the lake's tables, the last audit, the campaigns.

import { html, nothing } from "lit-html";

import { count, duration, plural, words } from "../format.js";
import { badge, copyable, icon, panel } from "../views/parts.js";
import { fresh } from "./fresh.js";
import { campaignForm, jobView } from "./jobs.js";

/** @typedef {import("../actions.js").Actions} Actions */
/** @typedef {import("../views/parts.js").View} View */

const TABLES_MS = 2000;
const CAMPAIGNS_MS = 4000;
const SILENT_MS = 10_000;

/** The campaign with the visible report. */
let opened = "";

/** The time since then. @param {number} ms */
const ago = (ms) => `${duration(Math.max(0, Date.now() - ms))} ago`;

/** @param {{state: string, message: string}} asked @param {string} what */
const absent = (asked, what) => html`<p class="quiet">${asked.state === "loading" ? "Loading…" : html`${icon("empty")} ${what}: ${asked.message}.`}</p>`;

/** The gold tables: rows, age, lag, and Spark's status. @param {Actions} actions @param {() => void} changed */
export function tables(actions, changed) {
  const asked = fresh("/pipeline", TABLES_MS, changed);
  if (asked.state !== "ready") return panel("pipeline", "Pipeline", nothing, absent(asked, "Cannot read the state of the tables"));
  const { stream, spark, command, missing } = asked.value;
  /** @type {{name: string, rows: number, written_ms: number}[]} */
  const made = asked.value.tables;
  const status = html`<p class="quiet">${spark === null
    ? html`Tables are not updating. The stream as a command: ${copyable(command, "the command")}`
    : html`${progress(spark)}`}</p>`;
  const trouble = stream === null ? [] : Object.entries(stream.broken).flatMap(([table, rules]) => Object.entries(rules).map(([rule, rows]) =>
    html`<p class="bad" role="alert">${icon("bad")} ${table}: ${plural(Number(rows), "row")} violate the rule: ${rule}</p>`));
  const aside = stream === null ? nothing : html`<span class="sum">${count(stream.lines)} lines, the tables lag <b>${duration(stream.lag_ms)}</b> behind the journals</span>`;
  return panel("pipeline", "Pipeline", aside, html`${jobView("stream", "Start the stream", actions, changed)}${status}${trouble}
    ${missing ? html`<p class="bad">${icon("warn")} ${plural(missing, "range")} of journal lines deleted before Spark read them: see table gaps</p>` : nothing}
    ${made.length === 0 ? html`<p class="quiet">No tables yet.</p>` : listed(made, actions)}`);
}

/** @param {{seen_ms: number, message: string, batch: number | null, rows: number, rows_per_second: number, durations_ms: Record<string, number>}} spark */
function progress(spark) {
  const silentMs = Date.now() - spark.seen_ms;
  if (silentMs > SILENT_MS) return html`${badge("warn", `last report of Spark ${ago(spark.seen_ms)}`, "warn")}`;
  const took = spark.durations_ms.triggerExecution;
  const steps = Object.entries(spark.durations_ms).filter(([name]) => name !== "triggerExecution").map(([name, ms]) => `${name} ${duration(ms)}`).join(", ");
  return html`${badge("running", `Spark: ${spark.message}`)} ${spark.batch === null ? nothing
    : html`<span title=${steps}>batch ${spark.batch}: ${plural(spark.rows, "row")}${took === undefined ? "" : ` in ${duration(took)}`}, ${count(Math.round(spark.rows_per_second))} a second</span>`}`;
}

/** @param {{name: string, rows: number, written_ms: number}[]} made @param {Actions} actions */
function listed(made, actions) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Tables, scrollable"><table>
    <thead><tr><th scope="col">table</th><th scope="col">rows</th><th scope="col">written</th></tr></thead>
    <tbody>${made.map(({ name, rows, written_ms }) => html`<tr><td><button type="button" class="small" aria-label="Show ${words(name)}"
      @click=${() => void actions.loadTable(name)}>${words(name)}</button></td><td>${count(rows)}</td><td>${ago(written_ms)}</td></tr>`)}</tbody>
  </table></div>`;
}

/** The last audit. @param {Actions} actions @param {() => void} changed */
export function audits(actions, changed) {
  const asked = fresh("/audits", CAMPAIGNS_MS, changed);
  if (asked.state !== "ready") return panel("audits", "Audits", nothing, absent(asked, "Cannot read the audits"));
  const { runs, events, set_aside, written_ms, violated, command } = asked.value;
  const job = jobView("audit", "Run an audit", actions, changed);
  if (written_ms === null) return panel("audits", "Audits", nothing, html`${job}<p class="quiet">An audit checks every invariant on every journal. As a command: ${copyable(command, "the command")}</p>`);
  /** @type {{invariant: string, held: number, violated: number, not_checked: number}[]} */
  const verdicts = asked.value.verdicts;
  /** @type {{run: string, invariant: string, detail: string, chain: string[], command: string | null}[]} */
  const shown = asked.value.violations;
  const aside = html`<span class="sum">${plural(runs, "run")}, ${count(events)} events, ${ago(written_ms)}${set_aside ? `, ${count(set_aside)} lines quarantined` : ""}</span>`;
  return panel("audits", "Audits", aside, html`${job}
    <p>${violated ? badge("bad", plural(violated, "violation"), "bad") : badge("ok", "no violation")}</p>
    ${shown.map((each) => html`<details class="violation"><summary>${icon("bad")} <b>${each.run}</b>: ${each.invariant}: ${each.detail}</summary>
      <ol>${each.chain.map((step) => html`<li>${step}</li>`)}</ol>
      ${each.command === null ? html`<p class="quiet">The seed of this run is not recorded.</p>` : copyable(each.command, "the command that replays it")}</details>`)}
    ${violated > shown.length ? html`<p class="quiet">and ${violated - shown.length} more in the table audits</p>` : nothing}
    <div class="scroll" tabindex="0" role="region" aria-label="Results, scrollable"><table>
      <thead><tr><th scope="col">invariant</th><th scope="col">passed</th><th scope="col">violated</th><th scope="col">not applicable</th></tr></thead>
      <tbody>${verdicts.map((each) => html`<tr><td>${each.invariant}</td><td>${each.held}</td><td>${each.violated ? html`<b class="bad">${each.violated}</b>` : 0}</td><td>${each.not_checked}</td></tr>`)}</tbody>
    </table></div>`);
}

/** Every campaign, and the report of the opened one. @param {Actions} actions @param {() => void} changed */
export function campaigns(actions, changed) {
  const asked = fresh("/campaigns", CAMPAIGNS_MS, changed);
  if (asked.state !== "ready") return panel("campaigns", "Campaigns", nothing, absent(asked, "Cannot read the campaigns"));
  /** @type {any[]} */
  const all = asked.value;
  const form = campaignForm(actions, changed);
  if (all.length === 0) {
    return panel("campaigns", "Campaigns", nothing, html`${form}<p class="quiet">A campaign compares settings on the same faults, seed by seed. As a command:
      ${copyable("zabka campaign run docs/campaigns/session-timeout.toml", "the command")}</p>`);
  }
  return panel("campaigns", "Campaigns", html`<span class="sum">${plural(all.length, "campaign")}</span>`, html`${form}${all.map((each) => campaign(each, changed))}`);
}

/** @param {string} name */
const reportOf = (name) => `/api/v1/campaigns/${encodeURIComponent(name)}/report`;

/** @param {any} each @param {() => void} changed */
function campaign(each, changed) {
  const most = each.settings * each.seeds;
  const turn = () => {
    opened = opened === each.name ? "" : each.name;
    changed();
  };
  return html`<article class="campaign" aria-label=${each.name}><h3>${each.question}</h3>
    <p class="quiet">${each.settings} settings on ${plural(each.seeds, "seed")} each: ${each.runs} of ${most} runs${each.last_run_ms === null ? "" : `, last run ${ago(each.last_run_ms)}`}
      ${each.ended === null ? badge("hourglass", "not finished") : nothing} ${each.violations ? badge("bad", `${plural(each.violations, "run")} violated an invariant`, "bad") : nothing}</p>
    ${each.ended === null ? html`<progress max=${most} value=${each.runs} aria-label="Runs"></progress>` : nothing}
    ${each.answer.length ? html`<ol>${each.answer.map((/** @type {string} */ sentence) => html`<li>${sentence}</li>`)}</ol>` : nothing}
    ${each.report ? html`<p class="row"><button type="button" class="small" aria-expanded=${opened === each.name} @click=${turn}>${opened === each.name ? "Close the report" : "Show the report"}</button>
      <a href=${reportOf(each.name)} target="_blank" rel="noopener">Open in a new tab</a></p>` : nothing}
    ${each.report && opened === each.name ? html`<iframe class="report" sandbox title="Report: ${each.question}" src=${reportOf(each.name)}></iframe>` : nothing}</article>`;
}
