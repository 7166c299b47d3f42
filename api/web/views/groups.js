// Consumer groups: now as their coordinators describe them, at a past moment as the journal has them.

import { html, nothing } from "lit-html";

import { fresh } from "../campaigns/fresh.js";
import { clockShort, count, lastKnown, list, plural } from "../format.js";
import { hash } from "../time/hash.js";
import { badge, icon, panel } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../store.js").State} State
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {{id: string, state: string, unknown: string | null, last_state: string | null, age_ms: number | null,
 *   coordinator: number | null, protocol: string | null, generation: number | null, member_count: number | null,
 *   partition_count: number | null, lag: number | null}} Group
 * @typedef {{member_id: string, group_instance_id: string | null, client_id: string, client_host: string, partitions: string[]}} Member
 * @typedef {{topic: string, partition: number, committed: number | null, end: number | null, lag: number | null,
 *   unknown: string | null, member_id: string | null}} Position
 */

const GROUPS_MS = 2000;
const ROWS_MAX = 100;
const COLUMNS = 7;
/** @type {Record<string, "running" | "empty">} The other states are steps of a rebalance. */
const SHAPES = { Stable: "running", Empty: "empty" };

/** The group with visible details. @type {string | null} */
let opened = null;

/** @param {State} state @param {Model} m @param {Moment} moment @param {() => void} changed */
export function groups(state, m, moment, changed) {
  const title = "Consumer groups";
  if (state.past) return panel("groups", title, nothing, journalled(state));
  if (m.silent_ms !== null) return panel("groups", title, nothing, html`<p class="quiet">${icon("empty")} Unknown: the API does not respond.</p>`);
  const asked = fresh("/groups", GROUPS_MS, changed);
  if (asked.state !== "ready") {
    return panel("groups", title, nothing, html`<p class="quiet">${asked.state === "loading" ? "Loading…" : html`${icon("empty")} Cannot read the groups: ${asked.message}.`}</p>`);
  }
  /** @type {{groups: Group[], silent_brokers: {broker_id: number, reason: string}[], omitted: number, problem: string | null}} */
  const { groups: found, silent_brokers: silent, omitted, problem } = asked.value;
  const aside = html`<span class="sum"><b>${count(found.length)}</b> ${found.length === 1 ? "group" : "groups"}${omitted ? html`, ${count(omitted)} more not shown` : nothing}</span>`;
  return panel("groups", title, aside, html`${missing(silent, problem)}${found.length ? table(found, state, moment, changed)
    : silent.length || problem ? nothing : html`<p class="quiet">There are no consumer groups.</p>`}`);
}

/** Why there may be more groups. @param {{broker_id: number, reason: string}[]} silent @param {string | null} problem */
function missing(silent, problem) {
  if (problem !== null) return html`<p class="warn">${icon("warn")} No broker lists its groups: ${problem}.</p>`;
  if (silent.length === 0) return nothing;
  const named = list(silent.map(({ broker_id }) => `broker ${broker_id}`));
  return html`<p class="warn" title=${silent.map(({ reason }) => reason).join("; ")}>${icon("warn")} There may be more groups: ${named} did not list all groups.</p>`;
}

/** @param {Group[]} found @param {State} state @param {Moment} moment @param {() => void} changed */
function table(found, state, moment, changed) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Consumer groups, scrollable"><table>
    <thead><tr><th scope="col">group</th><th scope="col">state</th><th scope="col" class="n">generation</th><th scope="col" class="n">members</th>
      <th scope="col" class="n" title="records after the committed offsets">lag</th><th scope="col">coordinator</th><th scope="col">last change</th></tr></thead>
    <tbody>${found.map((group) => row(group, state, moment, changed))}</tbody></table></div>`;
}

/** @param {Group} of @param {State} state @param {Moment} moment @param {() => void} changed */
function row(of, state, moment, changed) {
  const open = opened === of.id;
  const turn = () => {
    opened = open ? null : of.id;
    changed();
  };
  const unknown = html`<span class="quiet">unknown</span>`;
  const number = (/** @type {number | null} */ value) => (value === null ? unknown : count(value));
  return html`<tr aria-label="Group ${of.id}">
    <th scope="row"><button type="button" class="small" aria-expanded=${open ? "true" : "false"} aria-label="${open ? "Close" : "Show"} group ${of.id}" @click=${turn}>${open ? "−" : "+"}</button> ${of.id}</th>
    <td>${standing(of)}</td><td class="n">${number(of.generation)}</td><td class="n">${number(of.member_count)}</td><td class="n">${number(of.lag)}</td>
    <td>${coordinator(of.coordinator)}</td><td>${lastChange(of.id, state, moment)}</td></tr>
    ${open ? html`<tr class="details"><td colspan=${COLUMNS}>${details(of, changed)}</td></tr>` : nothing}`;
}

/** @param {number | null} id */
const coordinator = (id) => (id === null ? html`<span class="quiet">unknown</span>` : `broker ${id}`);

/** @param {Group} of */
function standing(of) {
  if (of.unknown === null) return state(of.state, of.protocol);
  const last = of.age_ms === null ? `no answer since the API started` : `${of.last_state}: ${lastKnown({ age_ms: of.age_ms })}`;
  return html`${badge("empty", "unknown", "warn")} <span class="quiet">${of.unknown}; ${last}</span>`;
}

/** @param {string} name @param {string | null} protocol */
function state(name, protocol) {
  const shape = SHAPES[name];
  return html`<span title=${protocol ? `assignment strategy ${protocol}` : nothing}>${badge(shape ?? "hourglass", name, shape ? "" : "warn")}</span>`;
}

/** A link to the last event of a group, with its causes. @param {string} id @param {State} state @param {Moment} moment */
function lastChange(id, state, moment) {
  const event = state.events.findLast((e) => e.type === "group_changed" && e.group_id === id);
  if (event === undefined) return nothing;
  return html`<a href=${hash({ ...moment.place, tab: "tracks", at: event.seq })} aria-label="Go to the last change of group ${id}">${clockShort(event.wall_us)}</a>`;
}

/** @param {Group} of @param {() => void} changed */
function details(of, changed) {
  if (of.unknown !== null) return html`<p class="quiet">${icon("empty")} Members and offsets are unknown: ${of.unknown}.</p>`;
  const asked = fresh(`/groups/${encodeURIComponent(of.id)}`, GROUPS_MS, changed);
  if (asked.state !== "ready") return html`<p class="quiet">${asked.state === "loading" ? "Loading…" : html`${icon("empty")} Cannot read the group: ${asked.message}.`}</p>`;
  /** @type {{members: Member[] | null, offsets: Position[] | null}} */
  const { members, offsets } = asked.value;
  return members === null || offsets === null ? html`<p class="quiet">${icon("empty")} Members and offsets are unknown.</p>`
    : html`${members.length ? memberTable(of, members) : html`<p class="quiet">The group has no members.</p>`}${offsets.length ? positions(of, members, offsets) : nothing}`;
}

/** @param {Group} of @param {Member[]} members */
function memberTable({ id, member_count }, members) {
  return html`<table aria-label="Members of ${id}"><thead><tr><th scope="col">client</th><th scope="col">host</th><th scope="col">partitions</th></tr></thead>
    <tbody>${members.slice(0, ROWS_MAX).map((each) => html`<tr><th scope="row" title="member ${each.member_id}">${each.client_id}${each.group_instance_id === null ? nothing
      : html` <span class="quiet">instance ${each.group_instance_id}</span>`}</th><td>${each.client_host}</td><td>${each.partitions.join(", ") || "none"}</td></tr>`)}
      ${more(member_count ?? 0, "member")}</tbody></table>`;
}

/** @param {Group} of @param {Member[]} members @param {Position[]} offsets */
function positions({ id, partition_count }, members, offsets) {
  const clients = new Map(members.map((each) => [each.member_id, each.client_id]));
  const cell = (/** @type {number | null} */ value, /** @type {string} */ none) => html`<td class="n">${value === null ? html`<span class="quiet">${none}</span>` : count(value)}</td>`;
  return html`<table aria-label="Offsets of ${id}"><thead><tr><th scope="col">partition</th><th scope="col" class="n">committed offset</th>
      <th scope="col" class="n">end offset</th><th scope="col" class="n">lag</th><th scope="col">member</th></tr></thead>
    <tbody>${offsets.slice(0, ROWS_MAX).map((each) => html`<tr><th scope="row">${each.topic}-${each.partition}</th>${cell(each.committed, "none")}
      <td class="n" title=${each.unknown ?? nothing}>${each.end === null ? html`<span class="quiet">unknown</span>` : count(each.end)}</td>${cell(each.lag, each.committed === null ? "none" : "unknown")}
      <td>${each.member_id === null ? html`<span class="quiet">none</span>` : clients.get(each.member_id)}</td></tr>`)}
      ${more(partition_count ?? 0, "partition")}</tbody></table>`;
}

/** @param {number} found @param {string} what */
const more = (found, what) => (found > ROWS_MAX ? html`<tr><td colspan=${COLUMNS} class="quiet">and ${plural(found - ROWS_MAX, what)} more</td></tr>` : nothing);

/** The groups of a past moment. The journal has no offsets of groups. @param {State} of */
function journalled(of) {
  const found = Object.values(of.cluster.groups);
  if (found.length === 0) return html`<p class="quiet">The journal has no consumer group at this moment.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Consumer groups, scrollable"><table>
    <thead><tr><th scope="col">group</th><th scope="col">state</th><th scope="col" class="n">generation</th><th scope="col" class="n">members</th><th scope="col">coordinator</th></tr></thead>
    <tbody>${found.map((each) => html`<tr aria-label="Group ${each.group_id}"><th scope="row">${each.group_id}</th><td>${state(each.state, null)}</td>
      <td class="n">${count(each.generation_id)}</td><td class="n">${count(each.members.length)}</td><td>${coordinator(each.broker_id)}</td></tr>`)}</tbody></table></div>`;
}
