// Actions on the cluster other than on processes: workloads and link faults.

import { html, nothing } from "lit-html";

import { requests } from "../actions.js";
import { count, lastKnown } from "../format.js";
import { amount, fields, formInjection, howMany, noFault, spokenEnd } from "../links/fault.js";
import { notFoundAgain, usersTopics } from "../model.js";
import { acknowledge } from "./partitions.js";
import { badge, icon, panel, select, send, submit } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 */

const SPARK_POINTS = 60;

/** @param {State} state @param {Model} m @param {Actions} actions */
export function workloads(state, m, actions) {
  const [producers, consumers] = [m.workloads.filter((w) => !reads(w)), m.workloads.filter(reads)];
  const running = m.workloads.filter((w) => w.state === "running").length;
  const start = submit((fields) => void actions.send(requests.startWorkload({
    topic: fields.topic, acks: fields.acks, records_per_s: Number(fields.records_per_s), ...TRANSACTIONS[fields.transactions],
  })));
  const form = html`<form class="row" aria-label="Start a producer" @submit=${start}>
    ${select("producer", "topic", "topic", usersTopics(m.topics))}
    ${select("producer", "acks", "acks", ["all", "1", "0"])}
    <label class="field"><span>records/s</span><input name="records_per_s" type="number" min="1" max="100000" value="50" required></label>
    ${select("producer", "transactions", "transactions", Object.keys(TRANSACTIONS))}
    <button class="primary" ?disabled=${actions.off !== "" || usersTopics(m.topics).length === 0}>Start producer</button></form>`;
  const body = html`${form}${producers.length === 0
    ? html`<p class="quiet">${usersTopics(m.topics).length ? "A producer writes numbered records and reads them back to detect lost records." : "Create a topic first: a producer needs one to write to."}</p>`
    : html`<div class="scroll" tabindex="0" role="region" aria-label="Producers, scrollable"><table>
      <thead><tr><th scope="col">producer</th><th scope="col" class="n">sent</th><th scope="col" class="n" title="acknowledged">acked</th>
        <th scope="col" class="n">failed</th><th scope="col" class="n" title="acknowledged records that are missing from the leaders' logs">lost</th><td></td></tr></thead>
      <tbody>${producers.map((w) => workload(state, w, actions))}</tbody></table></div>`}${groups(m, consumers, actions)}`;
  const aside = state.polled === null ? "unknown: no response from the API yet" : html`<b>${running}</b> running${m.silent_ms === null ? "" : `, ${lastKnown({ age_ms: m.silent_ms })}`}`;
  const open = notFoundAgain(state, () => true) > 0;
  return panel("workloads", "Producers", html`<span class="sum">${aside}</span>${open ? acknowledge(state, actions) : nothing}`, body);
}

/** The fields of a new producer, by its transactions. @type {Record<string, object>} */
const TRANSACTIONS = {
  none: {},
  commit: { kind: "transactional-producer", acks: "all" },
  "abort every 5th": { kind: "transactional-producer", acks: "all", abort_every: 5 },
};

/** Whether a workload is a member of a consumer group. @param {any} w */
const reads = (w) => w.kind === "consumer" || w.kind === "read-process-write";

/** The ends of a workload's transactions. @param {any} w */
const ends = (w) => w.transactional_id ? html`, ${w.transactional_id}: ${count(w.committed)} committed, ${count(w.aborted)} aborted, ${count(w.unknown)} unknown` : nothing;

/** Members of consumer groups. @param {Model} m @param {any[]} consumers @param {Actions} actions */
function groups(m, consumers, actions) {
  const start = submit((fields) => void actions.send(requests.startWorkload({
    topic: fields.topic, group: fields.group, offsets: fields.offsets,
    ...(fields.output ? { kind: "read-process-write", output: fields.output } : { kind: "consumer" }),
  })));
  const form = html`<form class="row" aria-label="Start a consumer" @submit=${start}>
    ${select("consumer", "topic", "topic", usersTopics(m.topics))}
    <label class="field"><span>group</span><input name="group" maxlength="249" pattern="[a-zA-Z0-9._\\-]+" value="readers" required></label>
    ${select("consumer", "offsets", "offsets in", ["kafka", "zookeeper"])}
    ${select("consumer", "output", "copy to", [{ value: "", text: "no topic" }, ...usersTopics(m.topics)])}
    <button ?disabled=${actions.off !== "" || usersTopics(m.topics).length === 0}>Start consumer</button></form>`;
  if (consumers.length === 0) return form;
  return html`${form}<div class="scroll" tabindex="0" role="region" aria-label="Consumers, scrollable"><table>
    <thead><tr><th scope="col">consumer</th><th scope="col" class="n">read</th><th scope="col" class="n" title="records that the group had already read">duplicates</th>
      <th scope="col" class="n" title="records read after a later record">out of order</th><th scope="col" class="n" title="records not read yet">lag</th><td></td></tr></thead>
    <tbody>${consumers.map((w) => consumer(w, actions))}</tbody></table></div>`;
}

/** @param {any} w @param {Actions} actions */
function consumer(w, actions) {
  const runs = w.state === "running";
  const has = w.partitions.length ? `partitions ${w.partitions.join(", ")}` : "no partition";
  return html`<tr aria-label="Consumer ${w.id}">
    <th scope="row"><span class="name">${icon(runs ? "running" : "empty")} ${w.topic}</span>
      <span class="facts" title="consumer ${w.id}">${w.group}, ${runs ? has : w.state}${w.output ? html`, copies to ${w.output}` : nothing}${ends(w)}</span></th>
    <td class="n">${count(w.consumed)}</td><td class="n">${count(w.duplicates)}</td>
    <td class="n ${w.out_of_order ? "bad" : ""}">${w.out_of_order ? icon("bad") : nothing} ${count(w.out_of_order)}</td>
    <td class="n">${count(w.lag)}</td>
    <td class="n">${runs ? send(actions, requests.stopWorkload(w.id), "Stop", { name: `Stop consumer ${w.id}` }) : nothing}</td></tr>
    ${runs && w.last_error ? html`<tr class="error"><td colspan="6">last error: ${w.last_error}</td></tr>` : nothing}`;
}

/** @param {State} state @param {any} w @param {Actions} actions */
function workload(state, w, actions) {
  const runs = w.state === "running";
  return html`<tr class=${w.lost ? "lost" : ""} aria-label="Producer ${w.id}">
    <th scope="row"><span class="name">${icon(runs ? "running" : "empty")} ${w.topic}</span>
      <span class="facts" title="producer ${w.id}">acks=${w.acks}, ${count(w.records_per_s)}/s, ${w.state}${ends(w)}</span></th>
    <td class="n">${count(w.sent)}</td><td class="n">${count(w.acknowledged)}</td>
    <td class="n ${w.failed ? "warn" : ""}" title=${w.last_error ?? ""}>${w.failed ? icon("warn") : nothing} ${count(w.failed)}</td>
    <td class="n ${w.lost ? "bad" : ""}">${w.lost ? icon("bad") : nothing} ${count(w.lost)}</td>
    <td class="n">${runs ? send(actions, requests.stopWorkload(w.id), "Stop", { name: `Stop producer ${w.id}` }) : nothing}</td></tr>
    ${runs ? html`<tr class="rate"><td colspan="6">${spark(state, w)}</td></tr>` : nothing}
    ${runs && w.last_error ? html`<tr class="error"><td colspan="6">last error: ${w.last_error}</td></tr>` : nothing}`;
}

/** Acknowledged records per second, over the last minute: an outage is a gap. @param {State} state @param {any} w */
function spark(state, w) {
  const points = state.rates[w.id] ?? [];
  const rates = points.slice(1).map((p, i) => Math.max(0, (p.acknowledged - points[i].acknowledged) / Math.max(0.05, (p.at_us - points[i].at_us) / 1e6)));
  const now = rates.at(-1);
  if (now === undefined) return nothing;
  // Records held back by an outage arrive all at once afterwards; they must not flatten the rest.
  const top = Math.min(w.records_per_s * 2, Math.max(w.records_per_s, ...rates));
  const step = 100 / (SPARK_POINTS - 1);
  const line = rates.slice(-SPARK_POINTS).reverse().map((r, i) => `${(100 - i * step).toFixed(1)},${(20 - Math.min(1, r / top) * 18).toFixed(1)}`).join(" ");
  return html`<span class="sparkline"><svg viewBox="0 0 100 22" preserveAspectRatio="none" aria-hidden="true"><polyline points=${line}/></svg>
    <span>${count(Math.round(now))}/s acked</span></span>`;
}

/** @param {Model} m @param {Actions} actions */
export function faults(m, actions) {
  const nodes = [...m.brokers.filter((b) => b.ours), ...m.peers].map((n) => n.name);
  const inject = submit((form) => void actions.send(formInjection(form)));
  const form = html`<form class="row" aria-label="Inject a fault" @submit=${inject}>
    ${fields("fault", nodes, "*")}
    <button class="primary" ?disabled=${actions.off !== ""}>Inject</button></form>`;
  const held = m.faults.length === 0 ? html`<p class="quiet">${noFault(m)}.</p>` : html`<ul class="faults">
    ${m.faults.map((f) => html`<li>${badge("warn", f.kind, "warn")}
      <span><b>${spokenEnd(f.source)}</b> ${f.both_ways ? "↔" : "→"} <b>${spokenEnd(f.target)}</b>${amount(f)}</span>
      ${send(actions, requests.healFault(f.fault_id), "Heal", { name: `Heal ${f.source} to ${f.target}` })}</li>`)}</ul>`;
  const aside = m.faults.length ? html`<span class="sum warn">${icon("warn")} ${howMany(m)}</span>
    ${send(actions, requests.healAll(), "Heal all")}` : nothing;
  return panel("faults", "Link faults", aside, html`${form}${held}`);
}
