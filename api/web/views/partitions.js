// Partitions and brokers: one row per partition, one column per broker, with the replica in each cell.

import { html, nothing, svg } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";

import { requests } from "../actions.js";
import { count, plural } from "../format.js";
import { FOLDED_ABOVE, partitionsShown, TOPICS } from "../partition_filter.js";
import { term } from "./glossary.js";
import { badge, icon, panel, send } from "./parts.js";
import { createForm, topicHead } from "./topics.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../model.js").Partition} Partition
 * @typedef {import("../model.js").Replica} Replica
 * @typedef {import("../partition_filter.js").Shown} Shown
 * @typedef {import("../partition_filter.js").Filter} Filter
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 */

// A bar shows the end of a log, not all of it, so that a lag of ten records is visible.
const WINDOW_MIN = 40;

/** @param {State} state @param {Model} m @param {Actions} actions @param {() => void} changed */
export function partitions(state, m, actions, changed) {
  const all = m.topics.flatMap((topic) => topic.partitions);
  const brokers = m.brokers.map((b) => b.id);
  const columns = brokers.length + 4;
  const wanted = state.ui.partitions;
  const { shown, place } = partitionsShown(m.topics, wanted);
  const healthy = all.filter((p) => !p.offline && !p.unserved && !p.unwritable && p.out_of_sync.length === 0).length;
  const aside = html`<span class="sum">${all.length
    ? html`<b>${healthy}</b> of ${all.length} available and fully in sync` : "no topics yet"}</span>${filterForm(wanted, changed)}${createForm(state, m, actions, changed)}`;
  const bodies = repeat(shown, ({ topic }) => topic.name, (each) => html`<tbody aria-label="Topic ${each.topic.name}">
      ${topicHead(state, each.topic, columns, actions, changed, fold(each, wanted, changed))}
      ${each.partitions.map((p) => row(p, brokers, actions))}
      ${turn(each.place, columns, `partitions of ${each.topic.name}`, (page) => {
        wanted.pages.set(each.topic.name, page);
        changed();
      })}
    </tbody>`);
  const table = html`<div class="scroll" tabindex="0" role="region" aria-label="Partitions, scrollable"><table class="partitions">
    <thead><tr><th scope="col">partition</th><th scope="col">leader</th><th scope="col">out of sync, ${term("ISR")}</th>
      ${brokers.map((id) => html`<th scope="col">broker ${id}</th>`)}<th scope="col">elect</th></tr></thead>
    ${bodies}<tbody>${turn(place, columns, "topics", (page) => {
      wanted.pages.set(TOPICS, page);
      changed();
    })}${shown.length ? nothing : html`<tr><td colspan=${columns} class="quiet">The filter matches none of ${plural(m.topics.length, "topic")}.</td></tr>`}</tbody>
    </table></div>`;
  return panel("partitions", "Partitions", aside, m.topics.length ? table : html`<p class="quiet">Create a topic to see its replicas here.</p>`);
}

/** @param {Filter} wanted @param {() => void} changed */
function filterForm(wanted, changed) {
  const typed = (/** @type {Event} */ e) => {
    wanted.filter = /** @type {HTMLInputElement} */ (e.target).value;
    wanted.pages.clear();
    changed();
  };
  const trouble = (/** @type {Event} */ e) => {
    wanted.trouble = /** @type {HTMLInputElement} */ (e.target).checked;
    wanted.pages.clear();
    changed();
  };
  return html`<div class="row find" role="search" aria-label="Partitions">
    <input type="search" aria-label="Filter topics and partitions" placeholder="filter: orders, orders-0" .value=${wanted.filter} @input=${typed}>
    <label class="field check"><input type="checkbox" .checked=${wanted.trouble} @change=${trouble}><span>with problems only</span></label></div>`;
}

/** The summary next to a topic's name: the number of partitions, their state, and the fold button. @param {Shown} each @param {Filter} wanted @param {() => void} changed */
function fold({ topic, unfolded, partitions: rows }, wanted, changed) {
  const all = topic.partitions;
  const offline = topic.deleting ? 0 : all.filter((p) => p.offline).length;
  const unserved = topic.deleting ? 0 : all.filter((p) => p.unserved).length;
  const under = topic.deleting ? 0 : all.filter((p) => !p.offline && p.out_of_sync.length).length;
  const toggle = () => {
    wanted.unfolded.set(topic.name, !unfolded);
    changed();
  };
  const many = all.length > FOLDED_ABOVE || rows.length < all.length || !unfolded;
  return html`${many ? html`<button type="button" class="small" aria-expanded=${unfolded ? "true" : "false"}
      aria-label="${unfolded ? "Collapse" : "Expand"} partitions of ${topic.name}" @click=${toggle}>${unfolded ? "Collapse" : "Expand"}</button>
    <span class="sum"><b>${count(all.length)}</b> ${all.length === 1 ? "partition" : "partitions"}</span>` : nothing}
    ${offline ? badge("bad", `${count(offline)} offline`, "bad") : nothing}
    ${unserved ? badge("bad", `${count(unserved)} without a running leader`, "bad") : nothing}
    ${under ? badge("warn", `${count(under)} under-replicated`, "warn") : nothing}`;
}

/**
 * Buttons for other pages, if there are any.
 * @param {import("../partition_filter.js").Place} place
 * @param {number} columns
 * @param {string} what
 * @param {(page: number) => void} go
 */
function turn({ page, pages, from, to, of }, columns, what, go) {
  if (pages < 2) return nothing;
  const step = (/** @type {string} */ text, /** @type {number} */ next) => html`<button type="button" class="small"
    aria-label="${text} ${what}" ?disabled=${next < 0 || next >= pages} @click=${() => go(next)}>${text}</button>`;
  return html`<tr class="turn"><td colspan=${columns}><span class="row">${step("First", page ? 0 : -1)}${step("Previous", page - 1)}
    <span class="sum">${count(from + 1)}–${count(to)} of ${count(of)}</span>${step("Next", page + 1)}${step("Last", page === pages - 1 ? pages : pages - 1)}</span></td></tr>`;
}

/** @param {Partition} p @param {number[]} brokers @param {Actions} actions */
function row(p, brokers, actions) {
  const name = `${p.topic}-${p.partition}`;
  const ends = p.rows.map((r) => r.leo ?? 0);
  const high = Math.max(0, ...ends);
  const low = Math.max(0, high - Math.max(WINDOW_MIN, (high - Math.min(high, ...ends, p.high_watermark ?? high)) * 1.25));
  const what = [{ topic: p.topic, partition: p.partition }];
  const preferred = p.replicas[0] === p.leader;
  return html`<tr class=${p.offline && !p.deleting ? "offline" : ""} aria-label="Partition ${name}">
    <th scope="row"><span class="name">${name}</span>
      <span class="facts">HW ${p.high_watermark === null ? "unknown" : count(p.high_watermark)}</span></th>
    <td><span class="led-by">${p.deleting ? badge("warn", "being deleted", "warn") : p.offline ? badge("bad", "offline", "bad") : html`<b class="of-broker b${p.leader % 8}">${p.leader}</b>${p.unserved ? html` ${badge("bad", p.unserved, "bad")}` : p.unwritable ? html` ${badge("bad", "rejects acks=all", "bad")}` : nothing}`}
      ${p.unclean ? badge("warn", "unclean", "warn") : nothing}</span>
      <span class="facts">leader epoch ${p.leader_epoch}</span>${p.unwritable && !p.offline && !p.unserved
      ? html`<span class="unwritable bad">not writable: ${p.unwritable}</span>` : nothing}</td>
    <td>${p.out_of_sync.length ? html`<span class="behind">${icon("warn")} ${p.out_of_sync.join(", ")}</span>` : nothing}
      <span class="facts">ISR ${p.isr.join(", ") || "empty"}</span>${p.eligible.length
      ? html`<span class="facts" title="eligible leader replicas: outside the ISR, but with all committed records; one of them can be elected if no replica of the ISR can">eligible ${p.eligible.join(", ")}</span>`
      : nothing}${gone(p)}</td>
    ${brokers.map((id) => cell(p, id, low, high))}
    <td class="elect">
      ${send(actions, requests.elect("PREFERRED", what), "Preferred", { name: `Elect the preferred leader of ${name}`, disabled: preferred })}
      ${send(actions, requests.elect("UNCLEAN", what), "Unclean", { name: `Unclean election for ${name}`, tone: "danger", disabled: !p.offline })}
    </td></tr>`;
}

/** @param {Partition} p */
function gone(p) {
  if (p.gone === 0) return nothing;
  return html`<a class="gone ${p.gone_committed ? "bad" : ""}" href="#losses">${p.gone_committed
    ? `at least ${plural(p.gone_committed, "committed record")} lost` : `${plural(p.gone, "record")} truncated`}</a>`;
}

/** @param {Partition} p @param {number} broker @param {number} low @param {number} high */
function cell(p, broker, low, high) {
  const replica = p.rows.find((r) => r.broker_id === broker);
  if (replica === undefined) return html`<td class="replica none"><span class="unseen">no replica</span></td>`;
  const [shape, word, tone] = standing(replica);
  const end = replica.leo === null ? "?" : count(replica.leo);
  const behind = replica.behind > 0 && !replica.leader ? html`<span class="minus">−${count(replica.behind)}</span>` : nothing;
  return html`<td class="replica ${tone}" title=${word}>
    <span class="standing">${icon(shape)}<span class="word">${word}</span><span class="leo" title=${replica.leo === null ? "log end offset unknown" : "log end offset"}>${end}</span>${behind}</span>
    ${bar(replica, p.high_watermark, low, high)}</td>`;
}

/** @param {Replica} replica @returns {["crown" | "ok" | "warn" | "down" | "paused" | "empty", string, string]} */
function standing(replica) {
  if (replica.process === "down" || replica.process === "gone") {
    return ["down", replica.process === "gone" ? "not registered" : "down", replica.in_sync ? "silent" : "out"];
  }
  if (replica.process === "paused") return ["paused", replica.leader ? "leader, paused" : "paused", replica.in_sync ? "silent" : "out"];
  if (replica.process === "silent") return ["empty", replica.leader ? "leader, unknown" : "unknown", replica.in_sync ? "silent" : "out"];
  if (replica.leader) return ["crown", "leader", "leader"];
  if (replica.stuck) return ["warn", `in the ISR, ${replica.stuck}`, "stuck"];
  return replica.in_sync ? ["ok", "in sync", "in"] : ["warn", "out of sync", "out"];
}

/** The end of a replica's log, with a mark at the high watermark. @param {Replica} replica @param {number | null} mark @param {number} low @param {number} high */
function bar(replica, mark, low, high) {
  const part = (/** @type {number} */ offset) => Math.max(0, Math.min(100, ((offset - low) / Math.max(1, high - low)) * 100));
  const end = part(replica.leo ?? 0);
  const committed = Math.min(end, part(mark ?? 0));
  const says = `log end offset ${replica.leo ?? "unknown"}, high watermark ${replica.hw ?? "unknown"}`;
  return html`<svg class="bar" role="img" aria-label=${says}><title>${says}</title>
    <rect class="track" width="100%" height="6" rx="2"/><rect class="pending" width="${end}%" height="6" rx="2"/>
    <rect class="committed" width="${committed}%" height="6" rx="2"/>
    ${mark === null ? nothing : svg`<line class="mark" x1="${part(mark)}%" x2="${part(mark)}%" y1="-1" y2="8"/>`}</svg>`;
}

/** A button for acknowledging all shown losses. @param {State} state @param {Actions} actions */
export const acknowledge = (state, actions) => send(actions, requests.acknowledgeLosses(state.cluster.seq), "Acknowledge", { name: "Acknowledge the losses" });

/** Lost records, newest first. @param {State} state @param {Model} m @param {Actions} actions */
export function losses(state, m, actions) {
  const found = state.cluster.losses.slice(-50).reverse();
  if (found.length === 0) return nothing;
  const body = html`<div class="scroll" tabindex="0" role="region" aria-label="Lost records, scrollable"><table>
    <thead><tr><th scope="col">partition</th><th scope="col">replica</th><th scope="col" class="n">records</th><th scope="col">offsets</th>
      <th scope="col" class="n">committed, at least</th><th scope="col">cause</th></tr></thead>
    <tbody>${found.map((loss) => html`<tr class=${loss.committed_at_least && loss.seq > state.cluster.losses_acknowledged_seq ? "lost" : ""}><th scope="row">${loss.topic}-${loss.partition}</th>
      <td>broker ${loss.broker_id}</td><td class="n">${count(loss.count)}</td><td>${loss.first_offset}–${loss.last_offset}</td>
      <td class="n">${loss.committed_at_least ? html`${icon("bad")} ${count(loss.committed_at_least)}` : 0}</td>
      <td>${loss.cause.replaceAll("_", " ")}${loss.committed_at_least && loss.seq <= state.cluster.losses_acknowledged_seq
      ? html` <span class="quiet">acknowledged</span>` : nothing}</td></tr>`)}</tbody></table></div>`;
  const partitions = m.topics.flatMap((topic) => topic.partitions);
  const committed = partitions.reduce((sum, p) => sum + p.gone_committed, 0);
  const open = partitions.reduce((sum, p) => sum + p.gone_open, 0);
  const aside = html`<span class="sum ${open ? "warn" : ""}">at least <b>${count(committed)}</b> committed ${committed === 1 ? "record" : "records"} lost,
    based on the highest high watermark reported before; each offset is counted once; one row per replica${committed && !open
    ? "; acknowledged" : ""}</span>${open ? acknowledge(state, actions) : nothing}`;
  return panel("losses", "Records removed from a replica", aside, body);
}
