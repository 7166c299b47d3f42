// Open transactions, with their coordinators, and the partitions whose readers of committed records wait for one.

import { html, nothing } from "lit-html";

import { age, count, duration, plural } from "../format.js";
import { silenceText } from "../model.js";
import { badge, icon, panel } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../model.js").Transaction} Transaction
 * @typedef {import("../model.js").Held} Held
 */

const STATE_TOPIC = "__transaction_state";

/** Nothing, as long as no producer has used a transactional id. @param {Model} m */
export function transactions(m) {
  if (!m.topics.some((topic) => topic.name === STATE_TOPIC) && m.transactions.length === 0 && m.held.length === 0) return nothing;
  const aside = html`<span class="sum ${m.held.length ? "warn" : ""}"><b>${m.transactions.length}</b> open${m.held.length
    ? html`; read_committed consumers wait in <b>${m.held.length}</b> ${m.held.length === 1 ? "partition" : "partitions"}` : nothing}</span>`;
  return panel("transactions", "Open transactions", aside, html`${table(m)}${waiting(m)}`);
}

/** @param {Model} m */
function table(m) {
  if (m.transactions.length === 0) return html`<p class="quiet">No coordinator has reported an open transaction.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Open transactions, scrollable"><table>
    <thead><tr><th scope="col">transactional id</th><th scope="col">state</th><th scope="col" class="n">age</th><th scope="col">producer</th>
      <th scope="col">coordinator</th><th scope="col">partitions without a marker</th></tr></thead>
    <tbody>${m.transactions.map(row)}</tbody></table></div>`;
}

/** @param {Transaction} of */
function row(of) {
  const overdue = of.state === "Ongoing" && of.age_ms !== null && of.timeout_ms !== null && of.age_ms > of.timeout_ms;
  const limit = of.timeout_ms === null ? "transaction.timeout.ms unknown" : `times out after ${duration(of.timeout_ms)}`;
  return html`<tr aria-label="Transaction of ${of.id}">
    <th scope="row">${of.id}</th><td>${of.state}</td>
    <td class="n" title=${limit}>${overdue ? html`${icon("warn")} ` : nothing}${of.age_ms === null ? "unknown" : age(of.age_ms)}</td>
    <td>${of.producer}<span class="quiet">, client ${of.client || "unknown"}</span></td><td>${coordinator(of)}</td>
    <td>${of.partitions.join(", ") || "none"}</td></tr>`;
}

/** @param {Transaction} of */
function coordinator(of) {
  const name = `broker ${of.coordinator}`;
  if (of.process === "running") return name;
  const last = `last report ${duration(of.reported_ms)} ago`;
  const process = of.silent ? silenceText(of.silent) : of.process;
  return html`${badge(of.process === "down" ? "down" : of.process === "paused" ? "paused" : "empty", name, "warn")}
    <span class="quiet">${process}, ${last}</span>`;
}

/** @param {Model} m */
function waiting(m) {
  if (m.held.length === 0) return nothing;
  return html`<h3>read_committed consumers blocked by an open transaction</h3>
    <div class="scroll" tabindex="0" role="region" aria-label="Blocked read_committed consumers, scrollable"><table>
    <thead><tr><th scope="col">partition</th><th scope="col" class="n">last stable offset</th><th scope="col" class="n">high watermark</th>
      <th scope="col" class="n">waits for</th><th scope="col">transaction</th></tr></thead>
    <tbody>${m.held.map(heldRow)}</tbody></table></div>`;
}

/** @param {Held} held */
function heldRow(held) {
  const stale = held.process === "running" ? nothing : html` <span class="quiet">broker ${held.leader} is ${held.process}: last known</span>`;
  const behind = held.high_watermark - held.offset;
  return html`<tr aria-label="Consumers of ${held.name}"><th scope="row">${held.name}</th><td class="n">${count(held.offset)}</td>
    <td class="n" title="${plural(behind, "offset")} above">${count(held.high_watermark)}</td><td class="n">${duration(held.held_ms)}</td>
    <td>${held.holder ?? html`${icon("warn")} hanging: no coordinator has reported one`}<span class="quiet">, producer ${held.producer}</span>${stale}</td></tr>`;
}
