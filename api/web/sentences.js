// A journal event as one line for people: a weight (how much it matters) and a sentence.

import { hex, plural, words } from "./format.js";

/** @typedef {import("./fold.js").Entry} Entry */

const ENVELOPE = new Set(["seq", "schema", "node", "node_seq", "wall_us", "mono_us", "type"]);

const tp = (/** @type {Entry} */ e) => `${e.topic}-${e.partition}`;
/** Of a broker that does not tell for itself, somebody else does: then it is named. @param {Entry} e */
const told = (e) => (e.node === `broker-${e.broker_id}` ? "" : `broker ${e.broker_id} `);
/** Of who may lead where nobody in the ISR can, where there is any. @param {Entry} e */
const eligible = (e) => (e.eligible?.length ? `, eligible ${e.eligible.join(", ")}` : "");
const who = (/** @type {number} */ id) => (id < 0 ? "none" : `broker ${id}`);

/** @type {Record<string, (e: Entry) => string>} */
const SENTENCES = {
  node_started: (e) => (e.id > 0 ? `started as ${e.role} ${e.id}` : `started as ${e.role}`),
  node_stopped: (e) => `ends: ${e.reason}`,
  process_changed: (e) => `${e.target} is ${e.process}${e.pid ? `, pid ${e.pid}` : ""} (${words(e.action)})`,
  fault_injected: (e) => `${e.kind} ${e.source} ${e.both_ways ? "↔" : "→"} ${e.target === "*" ? "everybody" : e.target}`
    + (e.delay_ms ? `, ${e.delay_ms} ms` : ""),
  fault_removed: (e) => `${e.fault_id} holds no longer`,
  peer_protocol_broken: (e) => `dropped ${e.remote}: ${e.reason}`,
  invariant_violated: (e) => `${e.invariant}: ${e.detail}`,
  peer_state_changed: (e) => `${e.state}, ${e.phase}` + (e.leader_id >= 0 ? `, leader is peer ${e.leader_id}` : ""),
  epoch_accepted: (e) => `accepted epoch ${e.accepted_epoch}`,
  epoch_adopted: (e) => `current epoch ${e.current_epoch}`,
  leader_established: (e) => `peer ${e.leader_id} leads epoch ${e.epoch}, with a quorum of ${e.quorum.join(", ")}`,
  membership_activated: (e) => `the ensemble is ${e.voters.join(", ")}`
    + (e.observers.length ? `, observed by ${e.observers.join(", ")}` : "") + ` (version ${hex(e.version)})`,
  learner_synced: (e) => `peer ${e.peer_id} brought to ${hex(e.to_zxid)} by ${e.mode}`,
  txn_log_truncated: (e) => `log cut from ${hex(e.from_zxid)} back to ${hex(e.to_zxid)}`,
  log_damage_found: (e) => `${e.file} at ${e.offset}: ${e.reason}; ${e.action}`,
  zxid_checkpoint: (e) => `at ${hex(e.zxid)}, ${plural(e.znodes, "znode")}, ${plural(e.sessions, "session")}`,
  snapshot_taken: (e) => `snapshot at ${hex(e.zxid)}, ${plural(e.size_bytes, "byte")} in ${e.duration_ms} ms`,
  session_created: (e) => `session ${hex(e.session_id)}, timeout ${e.timeout_ms} ms`,
  quota_exceeded: (e) => `${e.path} exceeds its quota: ${plural(e.count, "znode")} (limit ${e.count_limit}), ${plural(e.bytes, "byte")} (limit ${e.bytes_limit})`,
  session_expired: (e) => `session ${hex(e.session_id)} expired after ${e.timeout_ms} ms`,
  session_closed: (e) => `session ${hex(e.session_id)} closed` + (e.ephemerals.length ? `; gone: ${e.ephemerals.join(", ")}` : ""),
  broker_registered: (e) => `${told(e)}registered with broker epoch ${hex(e.broker_epoch)}`,
  broker_session_changed: (e) => `its session is ${e.state}`,
  controller_believed: (e) => `believes in ${e.is_controller ? "itself" : who(e.controller_id)} at epoch ${e.controller_epoch}`,
  controller_elected: (e) => `${told(e)}is controller, epoch ${e.controller_epoch}`,
  controller_ready: (e) => `ready as controller: read in ${e.read_ms} ms, decided in ${e.decide_ms} ms`,
  controller_propagated: (e) => `${e.brokers} brokers know what it decided, ${e.propagate_ms} ms later`,
  controller_resigned: (e) => `resigns at epoch ${e.controller_epoch}: ${words(e.reason)}`,
  controller_event_failed: (e) => `${e.event} at epoch ${e.controller_epoch}: ${e.problem}`,
  write_fenced: (e) => `${e.operation} ${e.path} at epoch ${e.controller_epoch} refused: ${words(e.reason)}`,
  request_fenced: (e) => `${e.request} from ${who(e.sender_id)} refused: ${words(e.reason)} (${e.request_epoch}, knows ${e.known_epoch})`,
  broker_liveness_changed: (e) => `live brokers: ${e.live.join(", ") || "none"}`,
  leader_elected: (e) => `${tp(e)}: ${e.leader < 0 ? "no leader" : `broker ${e.leader} leads`}, leader epoch ${e.leader_epoch}, `
    + `ISR ${e.isr.join(", ") || "empty"}${eligible(e)}${e.unclean ? ", UNCLEAN" : ""}`,
  assignment_changed: (e) => `${tp(e)}: replicas ${e.replicas.join(", ")}${e.adding.length ? `, adding ${e.adding.join(", ")}` : ""}`
    + `${e.removing.length ? `, removing ${e.removing.join(", ")}` : ""}`,
  isr_changed: (e) => `${tp(e)}: ISR ${e.isr.join(", ") || "empty"}${eligible(e)} (${words(e.cause)})`,
  leadership_taken: (e) => `leads ${tp(e)} at leader epoch ${e.leader_epoch} from offset ${e.log_end_offset}`,
  followership_taken: (e) => `${tp(e)}: follows ${who(e.leader)} at leader epoch ${e.leader_epoch}`,
  replica_progressed: (e) => e.replicas.map((/** @type {any[]} */ [t, p, hw, leo]) => `${t}-${p} ${hw}/${leo}`).join(", "),
  log_truncated: (e) => `${tp(e)}: log cut from ${e.from_offset} back to ${e.to_offset}`,
  records_lost: (e) => `${tp(e)}: ${plural(e.count, "record")} gone, ${e.first_offset} to ${e.last_offset}, `
    + `${e.below_high_watermark} of them committed (${words(e.cause)})`,
  replica_loaded: (e) => `${tp(e)}: opened at ${e.log_end_offset}, high watermark ${e.high_watermark}`,
  topic_created: (e) => `topic ${e.topic}, ${plural(Object.keys(e.assignment).length, "partition")}`,
  topic_deleted: (e) => `topic ${e.topic} is gone`,
  config_changed: (e) => `${e.entity}: ${Object.entries(e.config).map(([k, v]) => `${k}=${v}`).join(", ") || "no overrides"}`,
  workload_progressed: (e) => `${e.workload_id} on ${e.topic}: ${e.acknowledged} of ${e.sent} acknowledged, ${e.failed} failed, ${e.lost} lost`,
  consumer_progressed: (e) => `${e.workload_id} in group ${e.group_id} on ${e.topic}: ${e.consumed} consumed, `
    + `${e.duplicates} again, ${e.out_of_order} out of order, ${e.lag} behind`,
  group_changed: (e) => `group ${e.group_id}: ${e.state} in generation ${e.generation_id}, ${plural(e.members.length, "member")}`,
};

/** The sentence of an event; of a type not known here, its fields. @param {Entry} entry */
export function sentence(entry) {
  const say = Object.hasOwn(SENTENCES, entry.type) ? SENTENCES[entry.type] : undefined;
  if (say !== undefined) return say(entry);
  return Object.entries(entry).filter(([name]) => !ENVELOPE.has(name))
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

const ELECTIONS = new Set(["leader_established", "controller_elected", "leader_elected"]);
const TROUBLE = new Set([
  "write_fenced", "request_fenced", "session_expired", "controller_resigned", "log_damage_found", "fault_injected",
  "peer_protocol_broken", "controller_event_failed",
]);

/** How much an event matters: an election, trouble, loss, or plain. @param {Entry} e @returns {"loss" | "election" | "trouble" | "plain"} */
export function weight(e) {
  if (e.type === "invariant_violated") return "loss";
  if (e.type === "records_lost") return e.below_high_watermark > 0 ? "loss" : "trouble";
  if (e.type === "leader_elected" && (e.unclean || e.leader < 0)) return "trouble";
  if (ELECTIONS.has(e.type)) return "election";
  if (TROUBLE.has(e.type)) return "trouble";
  if (e.type === "isr_changed" && e.cause === "lag") return "trouble";
  if (e.type === "process_changed" && e.process !== "running") return "trouble";
  return "plain";
}
