// Topics with their size and rate, ongoing reassignments, and the records of a partition.

import { html, nothing } from "lit-html";

import { fresh } from "../campaigns/fresh.js";
import { bytes, count, list, plural } from "../format.js";
import { source } from "../source/source.js";
import { attempt, icon, panel } from "./parts.js";
import { openRecords, recordsView } from "./records.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 * @typedef {{partition: number, leader: number, first_offset: number | null, end_offset: number | null, records: number | null,
 *   records_per_s: number | null, bytes: number | null, bytes_per_s: number | null, replica_bytes: Record<string, number>}} Size
 * @typedef {{name: string, records: number | null, records_per_s: number | null, bytes: number | null, bytes_per_s: number | null,
 *   stored_bytes: number, partitions: Size[]}} Topic
 * @typedef {{topic: string, partition: number, replicas: number[], adding: number[], removing: number[], copied: Record<string, number | null>}} Reassignment
 */

const SIZES_MS = 2000;
const ROWS_MAX = 100;
const COLUMNS = 6;
const TITLE = "Topics";

/** The topic with visible partitions. @type {string | null} */
let opened = null;

/** @param {State} state @param {Model} m @param {Actions} actions @param {() => void} changed */
export function topicSizes(state, m, actions, changed) {
  // Neither a recorded run nor the journal of a past moment has sizes and records.
  if (!source().live || state.past || m.topics.length === 0) return nothing;
  if (m.silent_ms !== null) return panel("topics", TITLE, nothing, html`<p class="quiet">${icon("empty")} Unknown: the API does not respond.</p>`);
  const asked = fresh("/topic-sizes", SIZES_MS, changed);
  if (asked.state !== "ready") {
    return panel("topics", TITLE, nothing, html`<p class="quiet">${asked.state === "loading" ? "Loading…" : html`${icon("empty")} Cannot read the sizes: ${asked.message}.`}</p>`);
  }
  /** @type {{topics: Topic[], reassignments: Reassignment[] | null, silent_brokers: {broker_id: number, reason: string}[], problem: string | null}} */
  const { topics, reassignments, silent_brokers: silent, problem } = asked.value;
  const stored = topics.reduce((sum, topic) => sum + topic.stored_bytes, 0);
  const aside = html`<span class="sum"><b>${bytes(stored)}</b> on the disks of all brokers</span>`;
  return panel("topics", TITLE, aside, html`${missing(silent, problem)}${(reassignments ?? []).map(reassignment)}
    ${topics.length ? table(topics, actions, changed) : nothing}${attempt("the records", () => recordsView(actions, changed))}`);
}

/** @param {{broker_id: number, reason: string}[]} silent @param {string | null} problem */
function missing(silent, problem) {
  if (problem !== null) return html`<p class="warn">${icon("warn")} Sizes are unknown: ${problem}.</p>`;
  if (silent.length === 0) return nothing;
  return html`<p class="warn" title=${silent.map(({ reason }) => reason).join("; ")}>${icon("warn")} ${list(silent.map(({ broker_id }) => `Broker ${broker_id}`))} did not respond: the sizes of its replicas and the offsets of its partitions are unknown.</p>`;
}

/** @param {Reassignment} of */
function reassignment({ topic, partition, adding, removing, copied }) {
  const name = `${topic}-${partition}`;
  const parts = Object.values(copied);
  const least = parts.some((part) => part === null) ? null : Math.min(1, ...parts.map(Number));
  const moves = [adding.length ? `adds broker ${adding.join(", ")}` : "", removing.length ? `removes broker ${removing.join(", ")}` : ""].filter(Boolean);
  return html`<p class="row reassignment" role="group" aria-label="Reassignment of ${name}">${icon("hourglass")} <b>${name}</b> ${list(moves)}
    ${adding.length ? html`<progress max="1" .value=${least ?? 0} aria-label="Copied of ${name}"></progress>
      <span>${least === null ? "copied part unknown" : `${Math.floor(least * 100)} % copied`}</span>` : nothing}</p>`;
}

/** @param {Topic[]} topics @param {Actions} actions @param {() => void} changed */
function table(topics, actions, changed) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Topics, scrollable"><table>
    <thead><tr><th scope="col">topic</th><th scope="col" class="n" title="offsets in the logs of the leaders: with markers, and before compaction">records</th>
      <th scope="col" class="n">records per s</th><th scope="col" class="n" title="in the logs of the leaders">size</th><th scope="col" class="n">growth per s</th>
      <th scope="col" class="n" title="all replicas">stored</th></tr></thead>
    <tbody>${topics.slice(0, ROWS_MAX).map((topic) => row(topic, actions, changed))}${more(topics.length, "topic")}</tbody></table></div>`;
}

/** @param {Topic} topic @param {Actions} actions @param {() => void} changed */
function row(topic, actions, changed) {
  const open = opened === topic.name;
  const turn = () => {
    opened = open ? null : topic.name;
    changed();
  };
  return html`<tr aria-label="Topic ${topic.name}">
    <th scope="row"><button type="button" class="small" aria-expanded=${open ? "true" : "false"} aria-label="${open ? "Close" : "Show"} sizes of ${topic.name}" @click=${turn}>${open ? "−" : "+"}</button> ${topic.name}</th>
    ${cells(topic)}<td class="n">${bytes(topic.stored_bytes)}</td></tr>
    ${open ? html`${topic.partitions.slice(0, ROWS_MAX).map((each) => partition(topic.name, each, actions, changed))}${more(topic.partitions.length, "partition")}` : nothing}`;
}

/** @param {string} topic @param {Size} size @param {Actions} actions @param {() => void} changed */
function partition(topic, size, actions, changed) {
  const name = `${topic}-${size.partition}`;
  const replicas = Object.entries(size.replica_bytes);
  return html`<tr class="part" aria-label="Size of ${name}"><th scope="row">${name}
      <button type="button" class="small" aria-label="Look into ${name}" @click=${() => void openRecords(topic, size.partition, "", actions, changed)}>Records</button></th>
    ${cells(size)}<td class="n" title=${replicas.map(([broker, size_bytes]) => `broker ${broker}: ${bytes(size_bytes)}`).join("\n")}>${bytes(replicas.reduce((sum, [, size_bytes]) => sum + size_bytes, 0))}</td></tr>`;
}

/** @param {{records: number | null, records_per_s: number | null, bytes: number | null, bytes_per_s: number | null}} of */
function cells(of) {
  const cell = (/** @type {number | null} */ value, /** @type {(value: number) => string} */ shown) => html`<td class="n">${value === null ? html`<span class="quiet">unknown</span>` : shown(value)}</td>`;
  const rate = (/** @type {number} */ value) => count(Math.round(value));
  return html`${cell(of.records, count)}${cell(of.records_per_s, rate)}${cell(of.bytes, bytes)}${cell(of.bytes_per_s, bytes)}`;
}

/** @param {number} found @param {string} what */
const more = (found, what) => (found > ROWS_MAX ? html`<tr><td colspan=${COLUMNS} class="quiet">and ${plural(found - ROWS_MAX, what)} more</td></tr>` : nothing);
