// The event list, the calls from this page, and Spark's tables.

import { html, nothing } from "lit-html";
import { guard } from "lit-html/directives/guard.js";

import { clock, clockShort, count, duration, words } from "../format.js";
import { isProgress, sentence, weight } from "../sentences.js";
import { hash } from "../time/hash.js";
import { copyable, icon, panel, select } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../sentences.js").Table} Table
 * @typedef {import("../time/moment.js").Moment} Moment
 */

const SHOWN_MAX = 150;
// The number of events around the moment that are searched for its list.
const BEFORE = 400;
const AFTER = 60;
const TABLES = ["controller_terms", "failovers", "partition_leaderships", "isr_changes", "isr_membership", "availability", "client_availability", "records_lost", "transactions", "sessions", "elections", "faults", "incidents", "clock_steps"];
/** @type {Record<string, "bad" | "crown" | "warn" | "empty">} */
const WEIGHT_SHAPES = { loss: "bad", election: "crown", trouble: "warn", plain: "empty" };

/** @param {State} state @param {Model} m @param {Moment} moment @param {() => void} changed @param {() => Promise<void>} readChatter */
export function events(state, m, moment, changed, readChatter) {
  const { ui } = state;
  const all = selected(state, moment);
  const { run, seq } = moment.current();
  if (!state.past && lasting.past) requestAnimationFrame(toNewest);
  if (all !== null) {
    lasting = { run, seq, past: state.past, depends: [all.length, all[0]?.seq, all.at(-1)?.seq, state.past && state.cluster.seq, ui.node, ui.type, ui.progress, state.sentences,
      m.peers.length + m.brokers.length] };
  } else if (lasting.run !== run) lasting = { run, seq, past: true, depends: [run, state.sentences] };
  const said = !state.past ? html`<b>${count(state.cluster.seq)}</b> ${state.cluster.seq === 1 ? "event" : "events"}` : lasting.seq === seq ? "faded: after this moment" : `loading; showing event ${lasting.seq}`;
  const list = html`${guard(lasting.depends, () => eventList(state, all ?? [], m, moment, changed, readChatter))}`;
  return panel("events", "Events", html`<span class="sum">${said}</span>`, list);
}

/** @type {{run: string, seq: number, past: boolean, depends: unknown[]}} The inputs of the list: it stays until another moment's events are loaded. */
let lasting = { run: "", seq: 0, past: false, depends: [] };

/** Visible shares of a line at which its place is checked again. */
const VISIBLE_SHARES = [0, 0.25, 0.5, 0.75, 1];
/** Input by which a user scrolls. */
const USER_SCROLLS = ["wheel", "touchmove", "keydown", "pointerdown"];
/** @type {IntersectionObserver | null} Watches the line of the shown moment's event. */
let sight = null;

/** Back at the live end, scroll to the newest events. */
function toNewest() {
  sight?.disconnect();
  const list = document.querySelector(".events");
  if (list !== null) list.scrollTop = 0;
}

/**
 * The events to choose from: the newest, or those around the moment; null while these are loading.
 * @param {State} state @param {Moment} moment @returns {Entry[] | null}
 */
function selected(state, moment) {
  const { progress } = state.ui;
  if (!state.past) return progress ? [...state.events, ...state.chatter].sort((a, b) => a.seq - b.seq) : state.events;
  const { run, seq, first_seq, last_seq } = moment.current();
  const [from, to] = [Math.max(first_seq, seq - BEFORE), Math.min(last_seq, seq + AFTER)];
  const around = moment.run(run).kept(from, to);
  // The page is drawn again when they are loaded.
  if (around === null && moment.rested) void moment.entries(from, to).then(moment.changed, () => undefined);
  return around?.filter((e) => progress || e.seq === seq || !isProgress(state.sentences, e)) ?? null;
}

/** @param {State} state @param {Entry[]} all @param {Model} m @param {Moment} moment @param {() => void} changed @param {() => Promise<void>} readChatter */
function eventList(state, all, m, moment, changed, readChatter) {
  const { ui } = state;
  const set = (/** @type {"node" | "type"} */ field) => (/** @type {string} */ value) => {
    ui[field] = value;
    changed();
  };
  const types = [...new Set(all.filter((e) => !isProgress(state.sentences, e)).map((e) => e.type))].sort();
  const nodes = [...new Set([...m.peers, ...m.brokers].map((n) => n.name).concat(all.map((e) => e.node)))].sort();
  const any = { value: "", text: "all" };
  const progress = (/** @type {Event} */ e) => {
    ui.progress = /** @type {HTMLInputElement} */ (e.target).checked;
    if (ui.progress) void readChatter();
    changed();
  };
  const found = matching(state, all);
  const at = state.past ? state.cluster.seq : null;
  if (at !== null) requestAnimationFrame(inSight);
  return html`<div class="row filters">
      ${select("events", "node", "node", [any, ...nodes], ui.node, set("node"))}
      ${select("events", "type", "type", [any, ...types], ui.type, set("type"))}
      <label class="field check"><input type="checkbox" .checked=${ui.progress} @change=${progress}><span>show routine events</span></label></div>
    <ol class="events" tabindex="0" aria-label="Events, newest first">
      ${together(state.sentences, found, at).map((told) => line(state.sentences, told, moment, at))}${found.length ? nothing : html`<li class="quiet">${none(state)}</li>`}</ol>`;
}

/** Why the list is empty: older events are not searched. @param {State} state */
function none(state) {
  if (state.past) return "no matches around this moment";
  return state.cluster.seq ? "no matches among the newest events" : "no events yet";
}

/** The newest events that match the filters. @param {State} state @param {Entry[]} all */
function matching(state, all) {
  const { node, type } = state.ui;
  const found = [];
  for (let i = all.length - 1; i >= 0 && found.length < SHOWN_MAX; i -= 1) {
    const e = all[i];
    if ((!node || e.node === node) && (!type || e.type === type)) found.push(e);
  }
  return found;
}

/**
 * Adjacent equal events of several nodes become one line: every peer reports each session.
 * @param {Table} table @param {Entry[]} found @param {number | null} at the shown moment, whose event has a line of its own
 * @returns {{e: Entry, nodes: string[], said: string}[]}
 */
export function together(table, found, at = null) {
  /** @type {{e: Entry, nodes: string[], said: string}[]} */
  const lines = [];
  for (const e of found) {
    const text = sentence(table, e);
    const last = lines.at(-1);
    if (last && last.e.type === e.type && last.said === text && e.seq !== at && last.e.seq !== at && !last.nodes.includes(e.node)) last.nodes.push(e.node);
    else lines.push({ e, nodes: [e.node], said: text });
  }
  return lines;
}

/** @param {Table} table @param {ReturnType<typeof together>[number]} line @param {Moment} moment @param {number | null} at */
function line(table, { e, nodes, said }, moment, at) {
  const matters = weight(table, e);
  const [first, ...others] = [...nodes].sort();
  const place = at === null || e.seq < at ? "" : e.seq === at ? "shown" : "future";
  return html`<li class="${matters} ${place}" aria-current=${place === "shown" ? "true" : nothing}><time title="${clock(e.wall_us)}, event ${e.seq}"><a
      href=${hash({ ...moment.place, at: e.seq })} aria-label="${clockShort(e.wall_us)}, go to event ${e.seq}">${clockShort(e.wall_us)}</a></time>
    <span class="what">${icon(WEIGHT_SHAPES[matters])}<b>${first}${others.map((node) => `, ${node.split("-").at(-1)}`)}</b> <i>${e.type}</i></span>
    <span class="said">${said}</span></li>`;
}

/**
 * Scroll the list to the moment's event, and keep the event in view until the user scrolls. A line is only laid out when
 * it is visible for the first time, so the lines above the event can grow and move it out of view.
 */
function inSight() {
  sight?.disconnect();
  const line = document.querySelector(".events .shown");
  const list = line?.parentElement;
  if (!(line instanceof HTMLElement) || !list) return;
  const rail = line.closest(".rail");
  const observer = new IntersectionObserver(() => {
    const moved = scrolledTo(list, line);
    if (!(rail !== null && upTo(rail, line)) && !moved) return;
    // An observer reports changes only: observe again, in case the line is still hidden in the next frame.
    observer.unobserve(line);
    observer.observe(line);
  }, { threshold: VISIBLE_SHARES });
  observer.observe(line);
  sight = observer;
  for (const type of USER_SCROLLS) (rail ?? list).addEventListener(type, () => observer.disconnect(), { once: true, passive: true });
}

/** Scroll the list if the line is hidden; return whether it moved. @param {HTMLElement} list @param {HTMLElement} line */
function scrolledTo(list, line) {
  const [top, height, before] = [line.offsetTop - list.offsetTop, list.clientHeight, list.scrollTop];
  // A line can be higher than the list: its upper part must be visible.
  const needed = Math.min(line.offsetHeight, height / 2);
  if (top >= before && top + needed <= before + height) return false;
  list.scrollTop = top - height / 3;
  return list.scrollTop !== before;
}

/** Scroll the side panel if the line lies below its end; return whether it moved. @param {Element} rail @param {HTMLElement} line */
function upTo(rail, line) {
  const hidden = line.getBoundingClientRect().bottom - rail.getBoundingClientRect().bottom;
  const before = rail.scrollTop;
  if (hidden > 0) rail.scrollTop += hidden;
  return rail.scrollTop !== before;
}

/** @param {State} state */
export function calls(state) {
  if (state.calls.length === 0) return nothing;
  const body = html`<ol class="calls" aria-label="API calls from this page, newest first">${state.calls.map((call) => {
    const shape = call.ok === null ? "empty" : call.ok ? "ok" : "bad";
    return html`<li class=${call.ok === false ? "failed" : ""}>${copyable(call.curl, "this curl command")}
      <p class="outcome" role=${call.ok === false ? "alert" : nothing}>${icon(shape)} ${call.status ?? ""} ${call.text}</p></li>`;
  })}</ol>`;
  return panel("calls", "API calls", nothing, body);
}

/** @param {State} state @param {Actions} actions */
export function analytics(state, actions) {
  const { name, state: stands, table, message, command } = state.analytics;
  const choose = html`<div class="row">${select("analytics", "table", "table", TABLES.includes(name) ? TABLES : [...TABLES, name], name, (value) => {
    state.analytics.name = value;
    void actions.loadTable(value);
  })}<button type="button" class="small" @click=${() => void actions.loadTable(state.analytics.name)}>${stands === "ready" ? "Load again" : "Load"}</button></div>`;
  const made = stands === "ready" ? html`<span class="sum">${table.total} rows, written ${duration(Math.max(0, Date.now() - table.written_ms))} ago${table.lag_ms === null ? "" : `, lag ${duration(table.lag_ms)}`}</span>` : nothing;
  /** @type {Record<string, unknown>} */
  const bodies = {
    idle: html`<p class="quiet">Spark builds these tables from the journals.</p>`,
    loading: html`<p class="quiet">loading…</p>`,
    absent: html`<p class="quiet">${icon("empty")} ${command ? "This table does not exist yet. Create it with:" : message}</p>
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
