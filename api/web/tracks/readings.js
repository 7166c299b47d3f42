// The state of a lane at one moment: pure functions of the folded state. A span is a part of a history during which its
// lane stays in the same state.

import { controllerTerm, plural, shortTerm } from "../format.js";
import { obstacle } from "../writable.js";

/**
 * @typedef {import("../fold.js").ClusterState} ClusterState
 * @typedef {import("../fold.js").PartitionView} PartitionView
 * @typedef {{state: string, text: string, id: number, epoch: number, process: string, since_us?: number}} Reading  `state` decides the look,
 *   `text` is the description; `id` is the broker for the colour (-1 for none); `process` is running, paused or down. `since_us` is set
 *   if the state began before the event that reports it.
 */

/** A broker without events is unknown. @param {ClusterState} state @param {number} id */
const brokersProcess = (state, id) => state.brokers[id]?.process ?? "unknown";

/** The controller: active, dead or frozen while its session exists, or none. @param {ClusterState} state @returns {Reading | null} */
export function controllerReading(state) {
  const { controller_id: id, controller_epoch: epoch } = state;
  if (epoch === 0) return null;
  if (id < 0) return { state: "none", text: "no controller", id: -1, epoch, process: "running" };
  const lost = state.controller_terms.at(-1)?.holder_lost_by;
  if (lost == null) return { state: "active", text: controllerTerm(id, epoch), id, epoch, process: "running" };
  const frozen = lost === "pause" || lost === "stopped";
  return { state: "dead", text: `${frozen ? "frozen" : "dead"}, session not expired yet`, id, epoch, process: frozen ? "paused" : "down" };
}

/** The controller according to a broker, and whether that is right. @param {ClusterState} state @param {number} id @returns {Reading | null} */
export function beliefReading(state, id) {
  const broker = state.brokers[id];
  if (broker === undefined) return null;
  const process = brokersProcess(state, id);
  const { believed_controller_id: of, believed_controller_epoch: epoch } = broker;
  const belief = shortTerm(of, epoch);
  if (process === "down") return { state: "down", text: "down", id: -1, epoch, process };
  const mode = process === "paused" ? " frozen" : "";
  if (epoch === 0) return { state: "silent", text: `no report yet${mode}`, id: -1, epoch, process };
  if (epoch > state.controller_epoch) return { state: "ahead", text: `${belief}${mode}, ahead`, id: of, epoch, process };
  const right = of === state.controller_id && epoch === state.controller_epoch;
  return { state: right ? "right" : "stale", text: `${belief}${mode}${right ? "" : ", wrong"}`, id: of, epoch, process };
}

/** The state of a replica. @param {ClusterState} state @param {PartitionView} partition @param {number} id @returns {Reading | null} */
export function replicaReading(state, partition, id) {
  if (!partition.replicas.includes(id)) return null;
  const process = brokersProcess(state, id);
  const epoch = partition.leader_epoch;
  const base = { id, epoch, process };
  if (partition.leader === id) return { ...base, state: "leader", text: `leader, epoch ${epoch}${partition.unclean ? ", UNCLEAN" : ""}` };
  // An in-sync replica stays in one span, whatever its leader's epoch.
  if (partition.isr.includes(id)) return { ...base, epoch: 0, state: "in_sync", text: "in sync" };
  return { ...base, epoch: 0, state: "out", text: "not in the ISR" };
}

/**
 * The last stable offset is behind the high watermark, since an open transaction holds it back.
 * @param {import("../fold.js").HeldView} held @param {number} epoch @returns {Reading}
 */
function heldReading({ broker_id, offset, producer_id, since_us }, epoch) {
  const text = `last stable offset ${offset} held back by the transaction of producer ${producer_id}`;
  return { state: "held", text, id: broker_id, epoch, process: "running", since_us };
}

/** Why a partition is not served, or cannot be written because its leader is cut off, or holds committed readers back; null if none of these. @param {ClusterState} state @param {PartitionView} partition @returns {Reading | null} */
export function troubleReading(state, partition) {
  const { leader, leader_epoch: epoch, isr } = partition;
  if (leader < 0) return epoch === 0 && isr.length === 0 ? null : { state: "offline", text: "offline: no leader", id: -1, epoch, process: "down" };
  const process = brokersProcess(state, leader);
  if (process === "down") return { state: "orphan", text: "leader dead", id: leader, epoch, process };
  if (process === "paused") return { state: "orphan", text: "leader frozen", id: leader, epoch, process };
  const faults = Object.values(state.faults);
  const blocked = faults.length ? obstacle({ leader, isr, min_isr: null, lagging: [] }, (id) => brokersProcess(state, id), faults) : null;
  if (blocked !== null) return { state: "blocked", text: `not writable: ${blocked}`, id: leader, epoch, process };
  return partition.held ? heldReading(partition.held, epoch) : null;
}

/** @type {Record<string, string>} */
const ROLES = { LEADING: "leading", FOLLOWING: "following", OBSERVING: "observing", LOOKING: "looking", DOWN: "down" };
const SERVING = "BROADCAST";

/** A peer's state, phase and epoch. @param {ClusterState} state @param {number} id @returns {Reading | null} */
export function peerReading(state, id) {
  const peer = state.peers[id];
  if (peer === undefined) return null;
  const { process } = peer;
  const base = { id: -1, epoch: peer.current_epoch, process };
  if (process === "down" || peer.state === "DOWN") return { ...base, epoch: 0, state: "down", text: "down", process: "down" };
  const frozen = process === "paused" ? ", frozen" : "";
  const role = ROLES[peer.state] ?? peer.state.toLowerCase();
  if (peer.state === "UNKNOWN") return { ...base, state: "silent", text: `state unknown${frozen}` };
  if (peer.state === "LOOKING") return { ...base, state: "looking", text: `looking for a leader${frozen}` };
  const phase = peer.phase === SERVING ? "" : `, ${peer.phase.toLowerCase()}`;
  return { ...base, state: phase ? "joining" : role, text: `${role}${phase}, epoch ${peer.current_epoch}${frozen}` };
}

/** A consumer group as its coordinator last reported it. @param {ClusterState} state @param {string} name @returns {Reading | null} */
export function groupReading(state, name) {
  if (!Object.hasOwn(state.groups, name)) return null;
  const { broker_id: id, state: stands, generation_id: epoch, members } = state.groups[name];
  const process = brokersProcess(state, id);
  return groupWord(process === "down" || process === "paused" ? "silent" : AT_REST[stands] ?? "rebalancing", id, epoch, members.length);
}

/** The states of a group that does not rebalance. @type {Record<string, string>} */
const AT_REST = { Stable: "stable", Empty: "empty" };

/** @param {string} state @param {number} id the coordinator @param {number} epoch the generation @param {number} members @returns {Reading} */
export function groupWord(state, id, epoch, members) {
  const base = { state, id, process: "running" };
  if (state === "silent") return { ...base, epoch: 0, text: `unknown: coordinator ${id} does not run` };
  if (state === "rebalancing") return { ...base, epoch: 0, text: `rebalancing on broker ${id}` };
  return { ...base, epoch, text: `generation ${epoch} on broker ${id}, ${members ? plural(members, "member") : "no members"}` };
}

/** How many partitions of a topic are not served, and how many lack replicas. @param {number} unserved @param {number} short @param {number} all @returns {Reading | null} */
export function topicReading(unserved, short, all) {
  if (all === 0) return null;
  const base = { id: -1, epoch: 0, process: "running" };
  if (unserved) return { ...base, state: "offline", text: `${unserved} of ${all} without a running leader` };
  return short ? { ...base, state: "short", text: `${short} of ${all} under-replicated` } : { ...base, state: "whole", text: "all in sync" };
}
