// The cluster's state at any point: a fold over a prefix of its history. journal/fold.py does the same; the golden
// histories check that both compute the same states. Events are facts, so each handler assigns and none re-implements a
// protocol.

import { noteReached, noteReport } from "./losses.js";

/**
 * @typedef {string | number} Id64  An integer; a decimal string where a JavaScript number would not hold it exactly.
 * @typedef {{id: number, state: string, phase: string, leader_id: number, round: number, accepted_epoch: number,
 *   current_epoch: number, last_zxid: Id64, digest: Id64, process: string, pid: number | null}} PeerView
 * @typedef {{id: number, process: string, pid: number | null, registered: boolean, broker_epoch: Id64,
 *   session_id: Id64, session_state: string, is_controller: boolean, believed_controller_id: number,
 *   believed_controller_epoch: number, believed_since_us: number, fenced_requests: number,
 *   fenced_writes: number, process_since_us: number}} BrokerView
 * @typedef {{broker_id: number, controller_epoch: number, zk_version: number, since_us: number,
 *   until_us: number | null, ended_by: string | null, holder_lost_us: number | null,
 *   holder_lost_by: string | null, ready_us: number | null}} ControllerTermView  `ready_us`: the time of its first decision.
 * @typedef {{topic: string, partition: number, replicas: number[], leader: number, leader_epoch: number,
 *   isr: number[], partition_epoch: number, unclean: boolean, eligible: number[],
 *   high_watermarks: Record<string, number>,
 *   log_end_offsets: Record<string, number>, roles: Record<string, RoleView>, reached: Record<string, number>, held: HeldView | null}} PartitionView
 *   `reached` is the highest high watermark that a replica reported in each leader epoch; `held` is set while consumers
 *   of committed records wait for a transaction.
 * @typedef {{leader_epoch: number, is_leader: boolean, high_watermark: number | null}} RoleView  The role that a broker
 *   took for a partition, and the high watermark that it last reported in this role.
 * @typedef {{broker_id: number, offset: number, high_watermark: number, producer_id: number, producer_epoch: number,
 *   since_us: number}} HeldView
 * @typedef {{transactional_id: string, broker_id: number, state: string, producer_id: number, producer_epoch: number,
 *   partitions: string[], client_id: string, started_ms: number, timeout_ms: number, reported_us: number}} TransactionView
 *   An open transaction, as its coordinator `broker_id` reported it.
 * @typedef {{fault_id: string, kind: string, source: string, target: string, both_ways: boolean,
 *   delay_ms: number}} FaultView
 * @typedef {{at_us: number, broker_id: number, topic: string, partition: number, first_offset: number,
 *   last_offset: number, count: number, below_high_watermark: number, cause: string, committed_at_least: number, seq: number,
 *   topic_id: string}} Loss
 *   At least the first `committed_at_least` of the records were committed.
 * @typedef {{type: string, workload_id: string, topic: string, sent: number, acknowledged: number, failed: number,
 *   lost: number, acks: string, missing: {partition: number, first_offset: number, last_offset: number, count: number}[],
 *   running_ms: number, waited_ms: number}} WorkloadView
 * @typedef {{type: string, workload_id: string, topic: string, group_id: string, consumed: number, duplicates: number,
 *   out_of_order: number, lag: number, partitions: number[]}} ConsumerView
 * @typedef {{type: string, broker_id: number, group_id: string, state: string, generation_id: number,
 *   leader_id: string, members: string[], after: string, member_id: string, client_id: string,
 *   timeout_ms: number, caused_by: string}} GroupView
 * @typedef {{seq: number, at_us: number, peers: Record<string, PeerView>, brokers: Record<string, BrokerView>,
 *   controller_id: number, controller_epoch: number, controller_zk_version: number, controller_terms: ControllerTermView[],
 *   zab_epoch: number, zab_leader_id: number, zab_leader_since_us: number, topics: Record<string, string>,
 *   configs: Record<string, Record<string, string>>, partitions: Record<string, PartitionView>,
 *   faults: Record<string, FaultView>, losses: Loss[], losses_acknowledged_seq: number,
 *   lost_acknowledged: Record<string, number>, workloads: Record<string, WorkloadView>,
 *   consumers: Record<string, ConsumerView>, groups: Record<string, GroupView>,
 *   transactions: Record<string, TransactionView>}} ClusterState
 * @typedef {{seq: number, node: string, node_seq: number, wall_us: number, mono_us: number, type: string,
 *   [field: string]: any}} Entry  A journal line: the envelope, the type and the body's fields, flat.
 */

export const CONTROLLER_TERMS_MAX = 1000;
export const LOSSES_MAX = 1000;
const PAUSES = new Set(["pause", "stopped"]);
// Faults of the simulated world, where no host agent reports processes.
/** @type {Record<string, string>} */
const STOPS_A_NODE = { crash: "down", power_loss: "down", pause: "paused" };
/** The states of transactional ids with an open transaction. */
const OPEN = new Set(["Ongoing", "PrepareCommit", "PrepareAbort"]);
const ENDS_WITH_A_START = new Set([...Object.keys(STOPS_A_NODE), "stop"]);

/** The state before the first event. @returns {ClusterState} */
export function emptyState() {
  return {
    seq: 0, at_us: 0, peers: {}, brokers: {}, controller_id: -1, controller_epoch: 0, controller_zk_version: 0,
    controller_terms: [], zab_epoch: 0, zab_leader_id: -1, zab_leader_since_us: 0, topics: {}, configs: {}, partitions: {}, faults: {}, losses: [],
    losses_acknowledged_seq: 0, lost_acknowledged: {},
    workloads: {}, consumers: {}, groups: {}, transactions: {},
  };
}

/** @param {number} id @returns {PeerView} */
export function newPeer(id) {
  return {
    id, state: "DOWN", phase: "ELECTION", leader_id: -1, round: 0, accepted_epoch: 0, current_epoch: 0, last_zxid: 0,
    digest: 0, process: "down", pid: null,
  };
}

/** @param {number} id @returns {BrokerView} */
export function newBroker(id) {
  return {
    id, process: "down", pid: null, registered: false, broker_epoch: -1, session_id: 0, session_state: "closed",
    is_controller: false, believed_controller_id: -1, believed_controller_epoch: 0, believed_since_us: 0,
    fenced_requests: 0, fenced_writes: 0, process_since_us: 0,
  };
}

/** @param {string} topic @param {number} partition @returns {PartitionView} */
export function newPartition(topic, partition) {
  return {
    topic, partition, replicas: [], leader: -1, leader_epoch: 0, isr: [], partition_epoch: 0, unclean: false,
    eligible: [], high_watermarks: {}, log_end_offsets: {}, roles: {}, reached: {}, held: null,
  };
}

/** @param {string} node @returns {[string, number]} */
export function nodeId(node) {
  const dash = node.lastIndexOf("-");
  const number = node.slice(dash + 1);
  return [dash < 0 ? "" : node.slice(0, dash), /^\d{1,10}$/.test(number) ? Number(number) : -1];
}

/**
 * Apply the next entry of the history.
 * @param {ClusterState} state @param {Entry} entry
 */
export function apply(state, entry) {
  state.seq = Math.max(state.seq, entry.seq);
  state.at_us = Math.max(state.at_us, entry.wall_us);
  // A frozen process writes nothing. (No other event reports that a simulated process resumes.)
  if (state.controller_terms.at(-1)?.holder_lost_us != null && entry.node === `broker-${state.controller_id}`) holderBack(state, state.controller_id);
  unfreezeWriter(state, entry);
  HANDLERS[entry.type]?.(state, entry);
}

/** @param {ClusterState} state @param {Entry} entry */
function unfreezeWriter(state, entry) {
  for (const { fault_id, kind, source, target } of Object.values(state.faults)) {
    if (kind === "pause" && source === target && target === entry.node) {
      delete state.faults[fault_id];
      setProcess(state, entry, entry.node, "running", null, "resume");
      return;
    }
  }
}

/** The state after a history. @param {Iterable<Entry>} history @returns {ClusterState} */
export function fold(history) {
  const state = emptyState();
  for (const entry of history) apply(state, entry);
  return state;
}

/** @param {ClusterState} state @param {number} id */
const peer = (state, id) => (state.peers[id] ??= newPeer(id));
/**
 * The peer that wrote the entry. If its start is not in the history, because its older lines were removed, it is
 * running with an unknown state.
 * @param {ClusterState} state @param {Entry} entry
 */
const peerOf = (state, entry) => {
  const [, id] = nodeId(entry.node);
  return (state.peers[id] ??= { ...newPeer(id), state: "UNKNOWN", phase: "UNKNOWN", process: "running" });
};
/** @param {ClusterState} state @param {number} id */
const broker = (state, id) => (state.brokers[id] ??= newBroker(id));
/**
 * The broker that an entry is about. A broker without earlier events is running if it wrote the entry itself; otherwise
 * its process is unknown.
 * @param {ClusterState} state @param {Entry} entry @param {number} id
 */
const brokerNamed = (state, entry, id) => (state.brokers[id] ??= { ...newBroker(id), process: entry.node === `broker-${id}` ? "running" : "unknown" });
/** @param {ClusterState} state @param {string} topic @param {number} number */
const partition = (state, topic, number) => (state.partitions[`${topic}-${number}`] ??= newPartition(topic, number));

/**
 * Set a value under a name that users chose. An assignment would give `__proto__`, a valid name of a topic or group, a
 * special meaning.
 * @template T @param {Record<string, T>} of @param {string} name @param {T} value
 */
const put = (of, name, value) => Object.defineProperty(of, name, { value, writable: true, enumerable: true, configurable: true });

/** End the current controller term at that time. @param {ClusterState} state @param {number} atUs @param {string} reason */
function endControllerTerm(state, atUs, reason) {
  state.controller_id = -1;
  const last = state.controller_terms.at(-1);
  if (last !== undefined && last.until_us === null) {
    last.until_us = atUs;
    last.ended_by = reason;
  }
}

/**
 * If this broker is the controller, note that no controller is active from that time. Later events of a new process of
 * a dead broker do not concern the term.
 * @param {ClusterState} state @param {number} id @param {number} atUs @param {string} how
 */
function holderLost(state, id, atUs, how) {
  const term = state.controller_terms.at(-1);
  if (state.controller_id !== id || term === undefined || term.until_us !== null) return;
  term.holder_lost_us ??= atUs;
  if (term.holder_lost_by === null || PAUSES.has(term.holder_lost_by)) term.holder_lost_by = how;
}

/** If this broker is the controller and was frozen, it is active again. A killed process cannot resume. @param {ClusterState} state @param {number} id */
function holderBack(state, id) {
  const term = state.controller_terms.at(-1);
  if (state.controller_id !== id || !PAUSES.has(term?.holder_lost_by ?? "")) return;
  Object.assign(term ?? {}, { holder_lost_us: null, holder_lost_by: null });
}

/** @param {ClusterState} state @param {Entry} entry @param {string} node @param {string} process @param {number | null} pid @param {string} action */
function setProcess(state, entry, node, process, pid, action) {
  const [role, number] = nodeId(node);
  if (role === "peer") {
    const found = peer(state, number);
    if (found.process === "down" && process === "running") found.state = "LOOKING";
    Object.assign(found, { process, pid });
    if (process === "down") {
      // Its epochs and zxid are on its disk; its role, phase and leader ended with the process.
      Object.assign(found, { state: "DOWN", phase: "ELECTION", leader_id: -1 });
      if (state.zab_leader_id === number) state.zab_leader_id = -1;
    }
  } else if (role === "broker") {
    const found = broker(state, number);
    // This is another process, which has not reported anything yet; the belief of the previous one does not count.
    if (found.process === "down" && process === "running") Object.assign(found, { believed_controller_id: -1, believed_controller_epoch: 0, believed_since_us: 0 });
    if (found.process !== process) found.process_since_us = entry.wall_us;
    Object.assign(found, { process, pid });
    if (process === "down") Object.assign(found, { is_controller: false, session_state: "closed" });
    if (process === "running") holderBack(state, number);
    else holderLost(state, number, entry.wall_us, action);
  }
}

/** @param {ClusterState} state @param {string} topic */
function forgetTopic(state, topic) {
  delete state.topics[topic];
  delete state.configs[`topics/${topic}`];
  for (const [name, found] of Object.entries(state.partitions)) {
    if (found.topic === topic) delete state.partitions[name];
  }
}

/** @type {Record<string, (state: ClusterState, e: Entry) => void>} */
const HANDLERS = {
  node_started(state, e) {
    for (const { fault_id, kind, source, target } of Object.values(state.faults)) {
      if (source === target && target === e.node && ENDS_WITH_A_START.has(kind)) delete state.faults[fault_id];
    }
    if (e.role === "peer") {
      const { pid } = peer(state, e.id);
      state.peers[e.id] = { ...newPeer(e.id), state: "LOOKING", process: "running", pid };
    } else if (e.role === "broker") {
      const { pid, registered, session_id } = broker(state, e.id);
      state.brokers[e.id] = { ...newBroker(e.id), process: "running", pid, registered, session_id, process_since_us: e.wall_us };
      // The new process reports a held offset again.
      for (const each of Object.values(state.partitions)) if (each.held?.broker_id === e.id) each.held = null;
      // The controller's process has ended, although no event reports it: its host's agent may have ended with it.
      holderLost(state, e.id, e.wall_us, "exited");
    }
  },
  node_stopped: (state, e) => setProcess(state, e, e.node, "down", null, "stop"),
  process_changed: (state, e) => setProcess(state, e, e.target, e.process, e.pid, e.action),
  peer_state_changed(state, e) {
    const { state: role, phase, leader_id, round, accepted_epoch, current_epoch, last_zxid } = e;
    const found = peerOf(state, e);
    Object.assign(found, { state: role, phase, leader_id, round, accepted_epoch, current_epoch, last_zxid });
    if (role !== "LEADING" && state.zab_leader_id === found.id) state.zab_leader_id = -1;
  },
  epoch_accepted(state, e) {
    peerOf(state, e).accepted_epoch = e.accepted_epoch;
  },
  epoch_adopted(state, e) {
    peerOf(state, e).current_epoch = e.current_epoch;
  },
  leader_established(state, e) {
    if (e.epoch >= state.zab_epoch) [state.zab_epoch, state.zab_leader_id, state.zab_leader_since_us] = [e.epoch, e.leader_id, e.wall_us];
  },
  zxid_checkpoint(state, e) {
    Object.assign(peerOf(state, e), { last_zxid: e.zxid, digest: e.digest });
  },
  session_closed(state, e) {
    // Every peer reports it; only the first report still changes anything.
    for (const found of Object.values(state.brokers)) {
      if (found.session_id !== e.session_id || !found.registered) continue;
      found.registered = false;
      if (found.id === state.controller_id && e.ephemerals.includes("/controller")) {
        endControllerTerm(state, e.wall_us, e.caused_by?.startsWith("expiry") ? "session_expired" : "session_closed");
      }
    }
  },
  broker_registered(state, e) {
    const { broker_epoch, session_id } = e;
    const found = Object.assign(brokerNamed(state, e, e.broker_id), { registered: true, broker_epoch, session_id });
    // Another node reported it: the broker has no journal here, and its process is not managed here.
    if (e.node !== `broker-${e.broker_id}`) found.process = "unknown";
  },
  broker_session_changed(state, e) {
    brokerNamed(state, e, e.broker_id).session_state = e.state;
  },
  controller_believed(state, e) {
    Object.assign(brokerNamed(state, e, e.broker_id), {
      believed_controller_id: e.controller_id, believed_controller_epoch: e.controller_epoch,
      is_controller: e.is_controller, believed_since_us: e.wall_us,
    });
  },
  controller_elected(state, e) {
    const { broker_id, controller_epoch, zk_version, wall_us } = e;
    if (controller_epoch <= state.controller_epoch) return;
    endControllerTerm(state, wall_us, "superseded");
    Object.assign(state, { controller_id: broker_id, controller_epoch, controller_zk_version: zk_version });
    // A broker without a journal here does not report its first decision; its election is the closest known time.
    const ready_us = e.node === `broker-${broker_id}` ? null : wall_us;
    state.controller_terms.push({
      broker_id, controller_epoch, zk_version, since_us: wall_us, until_us: null, ended_by: null, holder_lost_us: null, holder_lost_by: null, ready_us,
    });
    state.controller_terms.splice(0, Math.max(0, state.controller_terms.length - CONTROLLER_TERMS_MAX));
  },
  controller_ready(state, e) {
    const term = state.controller_terms.at(-1);
    if (term !== undefined && term.controller_epoch === e.controller_epoch) term.ready_us = e.wall_us;
  },
  controller_resigned(state, e) {
    brokerNamed(state, e, e.broker_id).is_controller = false;
    if (state.controller_id === e.broker_id && state.controller_epoch === e.controller_epoch) {
      endControllerTerm(state, e.wall_us, e.reason);
    }
  },
  write_fenced(state, e) {
    brokerNamed(state, e, e.broker_id).fenced_writes += 1;
  },
  request_fenced(state, e) {
    // Counted for the sender, if it is known: the sender of a rejected request was wrong.
    if (e.sender_id >= 0) brokerNamed(state, e, e.sender_id).fenced_requests += 1;
  },
  topic_created(state, e) {
    // The controller that deleted the previous topic died before it logged the deletion: drop the old topic's state.
    if (Object.hasOwn(state.topics, e.topic) && state.topics[e.topic] !== e.topic_id) forgetTopic(state, e.topic);
    put(state.topics, e.topic, e.topic_id);
    for (const [number, replicas] of Object.entries(e.assignment)) {
      partition(state, e.topic, Number(number)).replicas = /** @type {number[]} */ (replicas);
    }
  },
  topic_deleted(state, e) {
    forgetTopic(state, e.topic);
  },
  config_changed(state, e) {
    state.configs[e.entity] = e.config;
  },
  leader_elected(state, e) {
    const found = partition(state, e.topic, e.partition);
    const older = e.leader_epoch - found.leader_epoch || e.partition_epoch - found.partition_epoch;
    if (older < 0) return;
    const { leader, leader_epoch, isr, replicas, partition_epoch, unclean, eligible } = e;
    Object.assign(found, { leader, leader_epoch, isr, replicas, partition_epoch, unclean, eligible: eligible ?? [] });
  },
  assignment_changed(state, e) {
    const found = partition(state, e.topic, e.partition);
    found.replicas = e.replicas;
    for (const offsets of [found.high_watermarks, found.log_end_offsets]) {
      for (const broker of Object.keys(offsets)) {
        if (!e.replicas.includes(Number(broker))) delete offsets[broker];
      }
    }
  },
  isr_changed(state, e) {
    const found = partition(state, e.topic, e.partition);
    if (e.partition_epoch < found.partition_epoch) return;
    const { isr, leader, leader_epoch, partition_epoch, eligible } = e;
    Object.assign(found, { isr, leader, leader_epoch, partition_epoch, eligible: eligible ?? [] });
  },
  leadership_taken(state, e) {
    const found = partition(state, e.topic, e.partition);
    found.roles[e.broker_id] = { leader_epoch: e.leader_epoch, is_leader: true, high_watermark: e.high_watermark };
    noteReached(found, e.leader_epoch, e.high_watermark);
    // The new leader reports a held offset itself.
    if (found.held && found.held.broker_id !== e.broker_id) found.held = null;
  },
  followership_taken(state, e) {
    const { roles } = partition(state, e.topic, e.partition);
    roles[e.broker_id] = { leader_epoch: e.leader_epoch, is_leader: false, high_watermark: null };
  },
  replica_progressed(state, e) {
    for (const [topic, number, highWatermark, logEndOffset] of e.replicas) {
      const found = partition(state, topic, number);
      const role = found.roles[e.broker_id];
      if (role) noteReport(found, role, highWatermark);
      found.high_watermarks[e.broker_id] = highWatermark;
      found.log_end_offsets[e.broker_id] = logEndOffset;
    }
  },
  last_stable_offset_held(state, e) {
    const { broker_id, last_stable_offset: offset, high_watermark, producer_id, producer_epoch } = e;
    const since_us = e.wall_us - e.held_ms * 1000;
    partition(state, e.topic, e.partition).held = { broker_id, offset, high_watermark, producer_id, producer_epoch, since_us };
  },
  last_stable_offset_released(state, e) {
    partition(state, e.topic, e.partition).held = null;
  },
  replica_loaded(state, e) {
    const found = partition(state, e.topic, e.partition);
    found.high_watermarks[e.broker_id] = e.high_watermark;
    found.log_end_offsets[e.broker_id] = e.log_end_offset;
  },
  log_truncated(state, e) {
    partition(state, e.topic, e.partition).log_end_offsets[e.broker_id] = Math.max(e.to_offset, e.begins_at ?? -1);
  },
  records_lost(state, e) {
    const { wall_us: at_us, broker_id, topic, partition: number, first_offset, last_offset, count } = e;
    const { below_high_watermark, cause } = e;
    const reached = state.partitions[`${topic}-${number}`]?.reached[e.leader_epoch ?? -1];
    const committed_at_least = Math.max(e.committed_at_least ?? -1, below_high_watermark,
      reached === undefined ? -1 : Math.min(count, reached - first_offset));
    state.losses.push({
      at_us, broker_id, topic, partition: number, first_offset, last_offset, count, below_high_watermark, cause, seq: e.seq,
      committed_at_least, topic_id: e.topic_id ?? "",
    });
    state.losses.splice(0, Math.max(0, state.losses.length - LOSSES_MAX));
  },
  losses_acknowledged(state, e) {
    state.losses_acknowledged_seq = Math.max(state.losses_acknowledged_seq, e.through_seq);
    Object.assign(state.lost_acknowledged, e.producers);
  },
  fault_injected(state, e) {
    const { fault_id, kind, source, target, both_ways, delay_ms } = e;
    state.faults[fault_id] = { fault_id, kind, source, target, both_ways, delay_ms };
    const stopped = source === target ? STOPS_A_NODE[kind] : undefined;
    if (stopped) setProcess(state, e, target, stopped, null, kind);
  },
  fault_removed(state, e) {
    delete state.faults[e.fault_id];
  },
  workload_progressed(state, e) {
    const { type, workload_id, topic, sent, acknowledged, failed, lost, acks = "", missing = [] } = e;
    const { running_ms = -1, waited_ms = -1 } = e;
    state.workloads[workload_id] = {
      type, workload_id, topic, sent, acknowledged, failed, lost, acks, missing, running_ms, waited_ms,
    };
  },
  consumer_progressed(state, e) {
    const { type, workload_id, topic, group_id, consumed, duplicates, out_of_order, lag, partitions } = e;
    state.consumers[workload_id] = {
      type, workload_id, topic, group_id, consumed, duplicates, out_of_order, lag, partitions,
    };
  },
  group_changed(state, e) {
    const { type, broker_id, group_id, state: stands, generation_id, leader_id, members } = e;
    const { after = "", member_id = "", client_id = "", timeout_ms = 0, caused_by = "" } = e;
    if (stands === "Dead") delete state.groups[group_id];
    else put(state.groups, group_id, { type, broker_id, group_id, state: stands, generation_id, leader_id, members, after, member_id, client_id, timeout_ms, caused_by });
  },
  transaction_changed(state, e) {
    if (!OPEN.has(e.state)) {
      delete state.transactions[e.transactional_id];
      return;
    }
    const { transactional_id, broker_id, state: stands, producer_id, producer_epoch, partitions } = e;
    put(state.transactions, transactional_id, {
      transactional_id, broker_id, state: stands, producer_id, producer_epoch, partitions, client_id: e.client_id ?? "",
      started_ms: e.started_ms ?? -1, timeout_ms: e.timeout_ms ?? 0, reported_us: e.wall_us,
    });
  },
};
