// The event list, the calls made from this page, and the tables that Spark makes.

import { html, nothing } from "lit-html";
import { guard } from "lit-html/directives/guard.js";

import { clock, clockShort, duration, words } from "../format.js";
import { sentence, weight } from "../sentences.js";
import { copyable, icon, panel, select } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../sentences.js").Table} Table
 */

const SHOWN_MAX = 150;
const TABLES = ["controller_reigns", "partition_leaderships", "isr_changes", "availability"];
/** @type {Record<string, "bad" | "crown" | "warn" | "empty">} */
const WEIGHT_SHAPES = { loss: "bad", election: "crown", trouble: "warn", plain: "empty" };

/** @param {State} state @param {Model} m @param {() => void} changed @param {() => Promise<void>} readChatter */
export function events(state, m, changed, readChatter) {
  const { ui } = state;
  const aside = html`<span class="sum">up to number <b>${state.cluster.seq}</b></span>`;
  const kept = [state.events, ...(ui.progress ? [state.chatter] : [])].map((all) => `${all[0]?.seq}-${all.at(-1)?.seq}`);
  const depends = [...kept, ui.node, ui.type, ui.progress, state.sentences, m.peers.length + m.brokers.length];
  return panel("events", "Events", aside, html`${guard(depends, () => eventList(state, m, changed, readChatter))}`);
}

/** @param {State} state @param {Model} m @param {() => void} changed @param {() => Promise<void>} readChatter */
function eventList(state, m, changed, readChatter) {
  const { ui } = state;
  const set = (/** @type {"node" | "type"} */ field) => (/** @type {string} */ value) => {
    ui[field] = value;
    changed();
  };
  const types = [...new Set(state.events.map((e) => e.type))].sort();
  const nodes = [...new Set([...m.peers, ...m.brokers].map((n) => n.name).concat(state.events.map((e) => e.node)))].sort();
  const any = { value: "", text: "all" };
  const progress = (/** @type {Event} */ e) => {
    ui.progress = /** @type {HTMLInputElement} */ (e.target).checked;
    if (ui.progress) void readChatter();
    changed();
  };
  const found = matching(state);
  return html`<div class="row filters">
      ${select("events", "node", "node", [any, ...nodes], ui.node, set("node"))}
      ${select("events", "type", "type", [any, ...types], ui.type, set("type"))}
      <label class="field check"><input type="checkbox" .checked=${ui.progress} @change=${progress}><span>progress</span></label></div>
    <ol class="events" tabindex="0" aria-label="Events, the newest first">
      ${together(state.sentences, found).map((told) => line(state.sentences, told))}${found.length ? nothing : html`<li class="quiet">nothing yet</li>`}</ol>`;
}

/** The newest events that the filters let through. @param {State} state */
function matching(state) {
  const { node, type, progress } = state.ui;
  const all = progress ? [...state.events, ...state.chatter].sort((a, b) => a.seq - b.seq) : state.events;
  const found = [];
  for (let i = all.length - 1; i >= 0 && found.length < SHOWN_MAX; i -= 1) {
    const e = all[i];
    if ((!node || e.node === node) && (!type || e.type === type)) found.push(e);
  }
  return found;
}

/**
 * Neighbours that say the same of several nodes become one line: every peer reports each session.
 * @param {Table} table @param {Entry[]} found
 * @returns {{e: Entry, nodes: string[], said: string}[]}
 */
export function together(table, found) {
  /** @type {{e: Entry, nodes: string[], said: string}[]} */
  const lines = [];
  for (const e of found) {
    const said = sentence(table, e);
    const last = lines.at(-1);
    if (last && last.e.type === e.type && last.said === said && !last.nodes.includes(e.node)) last.nodes.push(e.node);
    else lines.push({ e, nodes: [e.node], said });
  }
  return lines;
}

/** @param {Table} table @param {ReturnType<typeof together>[number]} line */
function line(table, { e, nodes, said }) {
  const matters = weight(table, e);
  const [first, ...others] = [...nodes].sort();
  return html`<li class=${matters}><time title="${clock(e.wall_us)}, number ${e.seq}">${clockShort(e.wall_us)}</time>
    <span class="what">${icon(WEIGHT_SHAPES[matters])}<b>${first}${others.map((node) => `, ${node.split("-").at(-1)}`)}</b> <i>${e.type}</i></span>
    <span class="said">${said}</span></li>`;
}

/** @param {State} state */
export function calls(state) {
  if (state.calls.length === 0) return nothing;
  const body = html`<ol class="calls" aria-label="Calls of this page, the newest first">${state.calls.map((call) => {
    const shape = call.ok === null ? "empty" : call.ok ? "ok" : "bad";
    return html`<li class=${call.ok === false ? "failed" : ""}>${copyable(call.curl, "this curl line")}
      <p class="outcome" role=${call.ok === false ? "alert" : nothing}>${icon(shape)} ${call.status ?? ""} ${call.text}</p></li>`;
  })}</ol>`;
  return panel("calls", "Calls", nothing, body);
}

/** @param {State} state @param {Actions} actions */
export function analytics(state, actions) {
  const { name, state: stands, table, message, command } = state.analytics;
  const choose = html`<div class="row">${select("analytics", "table", "table", TABLES, name, (value) => {
    state.analytics.name = value;
    void actions.loadTable(value);
  })}<button type="button" class="small" @click=${() => void actions.loadTable(state.analytics.name)}>${stands === "ready" ? "Load again" : "Load"}</button></div>`;
  const made = stands === "ready" ? html`<span class="sum">${table.total} rows, made ${duration(Date.now() - table.written_ms)} ago</span>` : nothing;
  /** @type {Record<string, unknown>} */
  const bodies = {
    idle: html`<p class="quiet">Spark makes these tables of the journals.</p>`,
    loading: html`<p class="quiet">loading…</p>`,
    absent: html`<p class="quiet">${icon("empty")} ${command ? "There is no such table yet. This makes it:" : message}</p>
      ${command ? copyable(command, "the command") : nothing}`,
  };
  return panel("analytics", "Analytics", made, html`${choose}${stands === "ready" ? rows(table) : bodies[stands]}`);
}

/** @param {{columns: string[], rows: Record<string, unknown>[]}} table */
function rows(table) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table, scrollable"><table>
    <thead><tr>${table.columns.map((column) => html`<th scope="col">${words(column.replace(/_[um]s$/, ""))}</th>`)}</tr></thead>
    <tbody>${[...table.rows].reverse().map((row) => html`<tr>${table.columns.map((column) => html`<td>${value(column, row[column])}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** @param {string} column @param {unknown} it */
function value(column, it) {
  if (it === null || it === undefined) return "";
  if (column.endsWith("_us") && typeof it === "number") return clockShort(it);
  if (column.endsWith("_ms") && typeof it === "number") return duration(it);
  return typeof it === "object" ? JSON.stringify(it) : String(it);
}
