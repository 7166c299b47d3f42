// The state of the page in one object, and the functions that change it.

import { apply, emptyState, nodeId } from "./fold.js";
import { isProgress } from "./sentences.js";

/**
 * @typedef {import("./fold.js").Entry} Entry
 * @typedef {import("./fold.js").ClusterState} ClusterState
 * @typedef {{id: number, curl: string, status: number | null, text: string, ok: boolean | null}} Call
 * @typedef {{at_ms: number, cluster: any}} Polled  A response of GET /api/v1/cluster.
 * @typedef {{name: string, state: "idle" | "loading" | "ready" | "absent", table: any, message: string,
 *   command: string | null}} Analytics
 * @typedef {{state: "idle" | "loading" | "ready", list: any[], message: string, run: any, live_run: any}} Scenarios  The
 *   outage library, the simulated run that was requested last, and the run on this cluster.
 * @typedef {{node: string, type: string, progress: boolean, config: string | null, armed: string | null,
 *   token: boolean, keys: boolean, projector: boolean, drawer: boolean, offsets: boolean, partitions: import("./partition_filter.js").Filter}} Ui
 * @typedef {{cluster: ClusterState, known: boolean, heard_ms: number | null, touched: Record<string, number>, doomed: Map<string, number>, events: Entry[],
 *   chatter: Entry[], polled: Polled | null, poll_problem: string | null, link: "connecting" | "live" | "reconnecting",
 *   skew_ms: number, calls: Call[], rates: Record<string, {at_us: number, acknowledged: number}[]>,
 *   zxids: Record<string, string>, analytics: Analytics, scenarios: Scenarios,
 *   what_if: import("./views/what_if.js").WhatIf | null, course: import("./tracks/course.js").Course | null, sentences: import("./sentences.js").Table, past: boolean, ui: Ui}} State  `past`: it is the state of a past moment, from the
 *   journal only; `heard_ms`: the time of the last data from the API, by our clock.
 */

export const EVENTS_MAX = 1000;
export const CHATTER_MAX = 300;
const CALLS_MAX = 6;
const RATES_MAX = 61;
// The Date header has whole seconds: a smaller difference between the two clocks is ignored.
const SKEW_MIN_MS = 2500;

/** @returns {State} */
export function newState() {
  return {
    cluster: emptyState(), known: false, heard_ms: null, touched: {}, doomed: new Map(), events: [], chatter: [], polled: null,
    poll_problem: null, link: "connecting", skew_ms: 0, calls: [], rates: {}, zxids: {},
    analytics: { name: "controller_terms", state: "idle", table: null, message: "", command: null },
    scenarios: { state: "idle", list: [], message: "", run: null, live_run: null },
    what_if: null, course: null, sentences: {}, past: false,
    ui: { node: "", type: "", progress: false, config: null, armed: null, token: false, keys: false, projector: false, drawer: false, offsets: false,
      partitions: { filter: "", trouble: false, unfolded: new Map(), pages: new Map() } },
  };
}

/** The run on this cluster that has not ended; null if there is none. @param {Scenarios} scenarios */
export const liveRun = ({ live_run }) => (live_run === null || live_run.state === "ended" ? null : live_run);

/** The runs that have not ended, and the run that was requested last; the newest is first. @param {Scenarios} scenarios @returns {any[]} */
export function shownRuns({ run, live_run }) {
  const found = [live_run, run].filter((each) => each !== null).sort((a, b) => b.requested_ms - a.requested_ms);
  return found.filter((each, i) => i === 0 || each.state !== "ended");
}

/** Start again from a folded state. @param {State} state @param {ClusterState} cluster @param {number} seq */
export function takeSnapshot(state, cluster, seq) {
  state.cluster = { ...cluster, seq };
  state.known = true;
  state.touched = {};
  state.doomed = new Map();
  state.events = [];
  state.chatter = [];
  state.rates = {};
}

/**
 * Process one event of the stream. False if it does not follow the known ones, so that a snapshot is needed.
 * @param {State} state @param {Entry} entry
 */
export function takeEntry(state, entry) {
  if (entry.seq <= state.cluster.seq) return true;
  if (!state.known || entry.seq !== state.cluster.seq + 1) return false;
  apply(state.cluster, entry);
  for (const subject of subjects(entry)) state.touched[subject] = Math.max(state.touched[subject] ?? 0, entry.wall_us);
  noteDeletion(state, entry);
  keep(state, entry);
  return true;
}

const DELETION = /^DELETE \/topics\/([^/]+)$/;

/** Record that a topic is being deleted, was deleted, or was created again. @param {State} state @param {Entry} entry */
function noteDeletion(state, entry) {
  if (entry.type === "topic_deleted" || entry.type === "topic_created") state.doomed.delete(entry.topic);
  if (entry.type !== "admin_requested") return;
  const named = entry.request === "DeleteTopics" ? entry.subjects : [DELETION.exec(entry.request)?.[1]];
  for (const topic of named) if (topic !== undefined && Object.hasOwn(state.cluster.topics, topic)) state.doomed.set(topic, entry.wall_us);
}

/** Each event once, in order of its number. @param {Entry[]} found @returns {Entry[]} */
export function inOrder(found) {
  return [...new Map(found.map((entry) => [entry.seq, entry])).values()].sort((a, b) => a.seq - b.seq);
}

/**
 * Insert events from before the snapshot.
 * @param {State} state @param {Entry[]} earlier @param {ClusterState} begun the state of that snapshot: after another snapshot the
 *   events may be from another history
 */
export function takeHistory(state, earlier, begun) {
  if (begun !== state.cluster) return;
  const first = Math.min(state.events[0]?.seq ?? Infinity, state.chatter[0]?.seq ?? Infinity);
  const since = [...state.events, ...state.chatter].sort((a, b) => a.seq - b.seq);
  [state.events, state.chatter, state.rates] = [[], [], {}];
  for (const entry of earlier) if (entry.seq < first) keep(state, entry);
  for (const entry of since) keep(state, entry);
}

/** Insert older progress events. @param {State} state @param {Entry[]} earlier @param {ClusterState} begun as in `takeHistory` */
export function takeChatter(state, earlier, begun) {
  if (begun !== state.cluster) return;
  const first = state.chatter[0]?.seq ?? Infinity;
  const older = earlier.filter((entry) => entry.seq < first && isProgress(state.sentences, entry));
  state.chatter = [...older, ...state.chatter].slice(-CHATTER_MAX);
}

/** @param {State} state @param {Entry} entry */
function keep(state, entry) {
  if (entry.type === "workload_progressed") {
    const points = (state.rates[entry.workload_id] ??= []);
    points.push({ at_us: entry.wall_us, acknowledged: entry.acknowledged });
    points.splice(0, Math.max(0, points.length - RATES_MAX));
  }
  const [kept, max] = isProgress(state.sentences, entry) ? [state.chatter, CHATTER_MAX] : [state.events, EVENTS_MAX];
  kept.push(entry);
  // Remove a tenth at a time: removing one of a thousand on every event would move all others each time.
  if (kept.length > max * 1.1) kept.splice(0, kept.length - max);
}

/** The subjects of an event: nodes and topics whose newest state is in the journal now. @param {Entry} entry */
function subjects(entry) {
  const found = [];
  const role = nodeId(entry.node)[0];
  if (role === "peer" && entry.type !== "session_closed") found.push(entry.node);
  if (entry.type === "session_closed") found.push("registrations");
  if (entry.type === "process_changed") found.push(entry.target);
  else if (role === "broker" && entry.type !== "replica_progressed") found.push(entry.node);
  if (entry.topic !== undefined) found.push(`topic ${entry.topic}`);
  if (entry.type === "config_changed") found.push(entry.entity.replace(/^topics\//, "topic "));
  if (entry.fault_id !== undefined) found.push("faults");
  return found;
}

/**
 * Process a response of GET /api/v1/cluster.
 * @param {State} state @param {any} cluster @param {number} nowMs @param {number} wallMs the time of the response, by the API's clock
 * @param {number} askedMs the time of the request: a slow response is not a difference of clocks
 */
export function takeAnswer(state, cluster, nowMs, wallMs, askedMs = nowMs) {
  state.polled = { at_ms: nowMs, cluster };
  state.heard_ms = nowMs;
  state.poll_problem = null;
  const apart_ms = wallMs < askedMs ? askedMs - wallMs : wallMs > nowMs ? nowMs - wallMs : 0;
  state.skew_ms = Math.abs(apart_ms) > SKEW_MIN_MS ? apart_ms : 0;
  for (const topic of cluster.topics) if (topic.deleting) state.doomed.set(topic.name, cluster.read_at_us);
  // A peer that is down reports none, and will come back with its last one.
  for (const peer of cluster.peers) if (peer.last_zxid !== null && peer.process !== "down") state.zxids[peer.id] = peer.last_zxid;
}

/** Record the start of a call to the API. @param {State} state @param {string} curl @returns {Call} */
export function beginCall(state, curl) {
  const call = { id: (state.calls[0]?.id ?? 0) + 1, curl, status: null, text: "in progress", ok: null };
  state.calls = [call, ...state.calls].slice(0, CALLS_MAX);
  return call;
}
