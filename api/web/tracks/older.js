// The part of a long history without loaded events: its spans from the API, merged by bins. Pure.

import { controllerTerm, shortTerm } from "../format.js";
import { groupWord } from "./readings.js";

/**
 * @typedef {import("./spans.js").Span} Span
 * @typedef {{from_us: number, to_us: number | null, state: string, value: any, seq: number}} SpanView
 * @typedef {{lane: string, kind: string, spans: SpanView[]}} Lane
 */

/** @type {Record<string, string>} */
const ROLES = { LEADING: "leading", FOLLOWING: "following", OBSERVING: "observing", LOOKING: "looking", DOWN: "down" };

/**
 * The lanes of the tracks, up to a moment.
 * @param {Lane[]} told @param {number} until_us @returns {Map<string, Span[]>}
 */
export function olderLanes(told, until_us) {
  /** @type {Map<string, Span[]>} */
  const lanes = new Map();
  for (const { lane, kind, spans } of told) {
    for (const span of spans) {
      const found = read(lane, kind, span);
      const to_us = Math.min(span.to_us ?? until_us, until_us);
      if (found === null || span.from_us >= until_us) continue;
      const [name, reading] = found;
      const all = lanes.get(name) ?? [];
      all.push({ ...reading, from_us: span.from_us, to_us, seq: span.seq });
      lanes.set(name, all);
    }
  }
  for (const spans of lanes.values()) spans.sort((a, b) => a.from_us - b.from_us);
  return lanes;
}

/** @param {string} lane @param {string} kind @param {SpanView} told @returns {[string, import("./readings.js").Reading] | null} */
function read(lane, kind, { state, value }) {
  if (kind === "controller") return ["controller", controller(state, value)];
  if (kind === "belief") return [lane.replace("broker-", ""), belief(state, value)];
  if (kind === "peer") return [lane, peer(state, value)];
  if (kind === "group") return [lane, groupWord(state, value.coordinator, value.generation ?? 0, value.members ?? 0)];
  if (kind === "isr") return replica(lane.replace("isr:", ""), state, value);
  return null;
}

/** @param {string} state @param {any} value */
function controller(state, value) {
  const [id, epoch] = [value?.broker_id ?? -1, value?.controller_epoch ?? 0];
  const text = state === "none" ? "no controller" : state === "dead" ? "dead, session not expired yet" : controllerTerm(id, epoch);
  return { state, text, id, epoch, process: "running" };
}

/** @param {string} state @param {any} value */
function belief(state, value) {
  const [id, epoch] = [value?.controller_id ?? -1, value?.controller_epoch ?? 0];
  const text = state === "silent" ? "no report" : `${shortTerm(id, epoch)}${state === "stale" ? ", wrong" : state === "ahead" ? ", ahead" : ""}`;
  return { state, text, id: state === "silent" ? -1 : id, epoch, process: "running" };
}

/** @param {string} state @param {any} value */
function peer(state, value) {
  if (state === "UNKNOWN") return { state: "silent", text: "state unknown", id: -1, epoch: value?.epoch ?? 0, process: "running" };
  const role = ROLES[state] ?? state.toLowerCase();
  const joins = ["leading", "following", "observing"].includes(role) && value?.phase && value.phase !== "BROADCAST";
  const epoch = value?.epoch ?? 0;
  return { state: joins ? "joining" : role, text: role === "down" ? role : `${role}, epoch ${epoch}`, id: -1, epoch, process: role === "down" ? "down" : "running" };
}

/** @param {string} partition @param {string} state @param {any} value @returns {[string, import("./readings.js").Reading]} */
function replica(partition, state, value) {
  const epoch = value?.leader_epoch ?? 0;
  if (state === "leaderless") {
    const orphan = value.leader >= 0;
    return [`trouble:${partition}`, { state: orphan ? "orphan" : "offline", text: orphan ? "leader not running" : "offline: no leader", id: value.leader, epoch, process: "down" }];
  }
  const role = value.role;
  const text = role === "leader" ? `leader, epoch ${epoch}` : role === "in_sync" ? "in sync" : "not in the ISR";
  return [`replica:${partition}:${value.replica}`, { state: role, text, id: value.replica, epoch: role === "leader" ? epoch : 0, process: state === "gone" ? "down" : "running" }];
}
