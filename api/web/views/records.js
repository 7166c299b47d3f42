// A look into the records of a partition: a page of them, as text or hexadecimal.

import { html, nothing } from "lit-html";
import { ref } from "lit-html/directives/ref.js";

import { outcome, requests } from "../actions.js";
import { bytes, clock, count } from "../format.js";
import { badge, icon, submit } from "./parts.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {{size: number, text: string | null, hex: string, truncated: boolean}} Data
 * @typedef {{offset: number, timestamp_ms: number | string | null, timestamp_type: string, leader_epoch: number, key: Data | null, value: Data | null,
 *   headers: {key: string, value: Data | null}[], producer_id: number | string | null, transaction: string | null, marker: string | null}} Row
 * @typedef {{first_offset: number, last_stable_offset: number, high_watermark: number, next_offset: number, records: Row[]}} Found
 * @typedef {{topic: string, partition: number, found: Found | null, trouble: string, loading: boolean}} Shown
 */

/** The partition that is shown. @type {Shown | null} */
let shown = null;
/** @type {"text" | "hex"} */
let manner = "text";
const PAGE = 20;

/** Read records from an offset on, or the last ones. @param {string} topic @param {number} partition @param {string} from @param {Actions} actions @param {() => void} changed */
export async function openRecords(topic, partition, from, actions, changed) {
  const same = shown?.topic === topic && shown.partition === partition ? shown : null;
  const mine = (shown = { topic, partition, found: same?.found ?? null, trouble: "", loading: true });
  changed();
  const answer = await actions.send(requests.records(topic, partition, from));
  Object.assign(mine, { loading: false, ...(answer?.ok ? { found: answer.body, trouble: "" } : { trouble: answer === null ? "the API does not respond" : outcome(answer) }) });
  changed();
}

/** The records of the chosen partition. @param {Actions} actions @param {() => void} changed */
export function recordsView(actions, changed) {
  if (shown === null) return nothing;
  const { topic, partition, found, trouble, loading } = shown;
  const name = `${topic}-${partition}`;
  const go = (/** @type {string | number} */ from) => void openRecords(topic, partition, String(from), actions, changed);
  const close = () => {
    shown = null;
    document.getElementById("topics")?.focus();
    changed();
  };
  return html`<section class="records" aria-label="Records of ${name}" aria-busy=${loading ? "true" : "false"} ${ref(show)}>
    <header class="row"><h3>Records of ${name}</h3>${found === null ? nothing : html`<span class="sum">offsets <b>${count(found.first_offset)}</b> to <b>${count(found.high_watermark)}</b>${found.last_stable_offset < found.high_watermark
      ? html`, last stable offset <b>${count(found.last_stable_offset)}</b>` : nothing}</span>`}
      <button type="button" class="small push" aria-label="Close the records" @click=${close}>Close</button></header>
    ${navigation(found, loading, go, changed)}
    ${trouble ? html`<p class="bad" role="alert">${icon("bad")} ${trouble}</p>` : nothing}
    ${found === null ? (trouble ? nothing : html`<p class="quiet">Loading…</p>`) : trouble ? nothing : table(found, name)}</section>`;
}

/** Scroll to the records when they are opened. @param {Element | undefined} section */
const show = (section) => section && queueMicrotask(() => section.scrollIntoView({ block: "nearest" }));

/** @param {Found | null} found @param {boolean} loading @param {(from: string | number) => void} go @param {() => void} changed */
function navigation(found, loading, go, changed) {
  const first = found?.records[0]?.offset ?? found?.next_offset ?? 0;
  const step = (/** @type {string} */ text, /** @type {string | number} */ from, /** @type {boolean} */ possible) => html`<button type="button" class="small" aria-label="${text} records" ?disabled=${loading || found === null || !possible} @click=${() => go(from)}>${text}</button>`;
  const asked = submit((fields) => go(fields.from));
  const choose = (/** @type {"text" | "hex"} */ to) => () => {
    manner = to;
    changed();
  };
  const start = found?.first_offset ?? 0;
  return html`<div class="row find">
    <form class="row" aria-label="Go to an offset" @submit=${asked}><label class="field"><span>from offset</span><input name="from" type="number" min="0" step="1" placeholder="last"></label>
      <button class="small" ?disabled=${loading}>Go</button></form>
    ${step("First", start, first > start)}${step("Previous", Math.max(start, first - PAGE), first > start)}
    ${step("Next", found?.next_offset ?? 0, found !== null && found.next_offset < found.high_watermark)}${step("Last", "", true)}
    <span class="row" role="group" aria-label="Show data as">${/** @type {const} */ (["text", "hex"]).map((each) => html`<button type="button" class="small" aria-pressed=${manner === each ? "true" : "false"} @click=${choose(each)}>${each}</button>`)}</span></div>`;
}

/** @param {Found} found @param {string} name */
function table({ records, next_offset }, name) {
  if (records.length === 0) return html`<p class="quiet">There is no record at offset ${count(next_offset)} yet: it is the end of ${name}.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Records, scrollable"><table>
    <thead><tr><th scope="col" class="n">offset</th><th scope="col">time</th><th scope="col">key</th><th scope="col">value</th><th scope="col">headers</th><th scope="col">transaction</th></tr></thead>
    <tbody>${records.map(row)}</tbody></table></div>`;
}

/**
 * The date and the time of day of a timestamp. A producer can send any number, for example nanoseconds: those are no date.
 * @param {number | string | null} at_ms
 */
function dateOf(at_ms) {
  if (at_ms === null) return { date: "no timestamp", time: "" };
  const at = new Date(Number(at_ms));
  if (Number.isNaN(at.getTime())) return { date: `${at_ms} ms`, time: `${at_ms} ms` };
  return { date: at.toISOString(), time: clock(at.getTime() * 1000) };
}

/** @param {Row} of */
function row(of) {
  const { offset, timestamp_ms: at_ms, timestamp_type, leader_epoch, headers } = of;
  const { date, time } = dateOf(at_ms);
  return html`<tr aria-label="Record ${offset}" class=${of.transaction ?? ""}>
    <th scope="row" class="n" title="leader epoch ${leader_epoch}">${count(offset)}</th>
    <td title="${date}${timestamp_type === "append" ? ", set by the leader" : ""}">${at_ms === null ? html`<span class="quiet">none</span>` : time}</td>
    ${of.marker === null ? html`<td class="data">${data(of.key)}</td><td class="data">${data(of.value)}</td>` : html`<td colspan="2">${badge(of.marker === "commit" ? "ok" : "down", `marker: ${of.marker}`)}</td>`}
    <td class="data">${headers.map((each) => html`<div><b>${each.key}</b> ${data(each.value)}</div>`)}</td>
    <td>${transaction(of)}</td></tr>`;
}

/** @param {Row} of */
function transaction({ transaction: ended, producer_id, marker }) {
  const by = producer_id === null ? nothing : html`<span class="facts">producer ${producer_id}</span>`;
  if (ended === null) return by;
  if (marker !== null) return by;
  const shape = ended === "committed" ? "ok" : ended === "aborted" ? "down" : "hourglass";
  return html`${badge(shape, ended, ended === "aborted" ? "bad" : ended === "undecided" ? "warn" : "")}${by}`;
}

/** @param {Data | null} of */
function data(of) {
  if (of === null) return html`<span class="quiet">null</span>`;
  if (of.size === 0) return html`<span class="quiet">empty</span>`;
  const shownText = manner === "hex" || of.text === null ? of.hex.replaceAll(/(..)(?=.)/g, "$1 ") : of.text;
  return html`<code>${shownText}</code>${of.text === null && manner === "text" ? html` <span class="quiet">not text: hexadecimal</span>` : nothing}${of.truncated ? html` <span class="quiet">the first 10 KiB of ${bytes(of.size)}</span>` : nothing}`;
}
