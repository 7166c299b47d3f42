// The data of the page, computed from the journal's fold and the API's last response.
//
// The fold is a fraction of a second behind the cluster, the response up to two seconds. But the journal is bounded, and
// a fold of its stored part may lack old events. So the journal counts for subjects with recent events, and the response
// for all others. Versions and epochs only rise, so of two the higher counts.

import { clockShort, controllerTerm, duration, hex, list, plural } from "./format.js";
import { lostByPartition, NOTHING_LOST } from "./losses.js";
import { isCut, links, named, obstacle } from "./writable.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {import("./fold.js").PartitionView} PartitionView
 * @typedef {{id: number, name: string, state: string, phase: string, leader_id: number, accepted_epoch: number,
 *   current_epoch: number, zxid: string, process: string, pid: number | null, observer: boolean,
 *   leads: boolean, silent: Silent | null}} Peer
 * @typedef {{host: string, since_us: number, remedy?: string | null}} Silent  A host that has not responded since then: the state of its nodes is unknown.
 * @typedef {{verdict: "agrees" | "stale" | "ahead" | "silent", text: string}} BeliefVerdict
 * @typedef {{id: number, name: string, process: string, ours: boolean, pid: number | null, address: string, registered: boolean,
 *   broker_epoch: string | null, session: string, is_controller: boolean, believes_id: number,
 *   believes_epoch: number, age_ms: number | null, fenced_requests: number, fenced_writes: number,
 *   judged: BeliefVerdict, silent: Silent | null, lost_us: number | null}} Broker  `lost_us`: when its process stopped or froze.
 * @typedef {{broker_id: number, leader: boolean, in_sync: boolean, leo: number | null, hw: number | null,
 *   behind: number, process: string, stuck: "" | "cut off" | "lagging"}} Replica  `stuck`: why a member of the ISR does not receive its leader's records.
 * @typedef {{topic: string, partition: number, leader: number, leader_epoch: number, partition_epoch: number,
 *   isr: number[], eligible: number[], replicas: number[], out_of_sync: number[], high_watermark: number | null, unclean: boolean,
 *   offline: boolean, unserved: "" | "dead" | "frozen", unwritable: string | null, deleting: boolean, rows: Replica[], gone: number, gone_committed: number, gone_open: number}} Partition  `gone_open`: committed, and not acknowledged by a user.
 *   `unserved`: the state of its leader's process if that does not run. `unwritable`: why it does not acknowledge a write with acks=all.
 * @typedef {{id: string, state: string, coordinator: number, process: string, silent: Silent | null, producer: string, client: string,
 *   partitions: string[], age_ms: number | null, timeout_ms: number | null, reported_ms: number}} Transaction  An open transaction. `process`
 *   and `silent` are its coordinator's; `reported_ms` is the age of that broker's last report.
 * @typedef {{name: string, offset: number, high_watermark: number, producer: string, holder: string | null, held_ms: number, leader: number,
 *   process: string}} Held  A partition whose readers of committed records wait; `holder` is null if no coordinator has reported the transaction.
 * @typedef {{name: string, config: Record<string, string>, deleting: boolean, partitions: Partition[]}} Topic
 * @typedef {{level: "ok" | "warn" | "bad" | "unknown", word: string,
 *   reasons: {text: string, href: string}[]}} Health
 * @typedef {{id: number, epoch: number, zk_version: number, stale: boolean, age_ms: number}} Ensemble  `stale`: this is the last known state, of that age.
 * @typedef {{now_ms: number, ensemble: Ensemble, zab: {epoch: number, leader_id: number, known: boolean, since_us: number}, quorum: boolean,
 *   peers: Peer[], brokers: Broker[], topics: Topic[], controller_terms: import("./fold.js").ControllerTermView[],
 *   faults: any[], request_faults: any[], faults_known: boolean, transactions: Transaction[], held: Held[], workloads: any[], health: Health, settings: any, silent_ms: number | null}} Model  `faults_known`: false
 *   while no host agent responds; `faults` are the last known ones then. `silent_ms`: the time since the API's last response; null
 *   while it responds.
 */

/** @param {State} state @param {number} localMs @returns {Model} */
export function model(state, localMs) {
  const now_ms = localMs - state.skew_ms;
  const silent_ms = silenceOfApi(state, localMs);
  const ensemble = ensembleWord(state, now_ms, silent_ms);
  const quorum = state.polled === null || !state.polled.cluster.stale;
  const peers = peersOf(state);
  const brokers = brokersOf(state, ensemble, localMs);
  const faults = faultsOf(state);
  const topics = topicsOf(state, new Map(brokers.map((b) => [b.id, standsAs(b)])), faults);
  const leader = peers.find((p) => p.leads);
  const controller_terms = controllerTermsOf(state, ensemble);
  const request_faults = requestFaultsOf(state);
  const faults_known = silent_ms === null && state.polled?.cluster.faults !== null;
  const settings = state.polled?.cluster.settings ?? {};
  // A peer with an unknown state may lead.
  const known = leader !== undefined || !peers.some((p) => p.silent || p.state === "UNKNOWN");
  const { zab_epoch, zab_leader_id, zab_leader_since_us } = state.cluster;
  const since_us = leader?.id === zab_leader_id ? zab_leader_since_us : 0;
  const zab = { epoch: leader?.current_epoch ?? zab_epoch, leader_id: leader?.id ?? -1, known, since_us };
  const shown = {
    now_ms, ensemble, zab, quorum, peers, brokers, topics, controller_terms, faults, request_faults, faults_known, settings, silent_ms,
    transactions: transactionsOf(state, brokers, now_ms), held: heldOf(state, brokers, now_ms), workloads: workloadsOf(state),
  };
  return { ...shown, health: health(state, shown) };
}

/**
 * Whether the journal has the newest state of a subject: by the clock of the host that wrote it, not by the time of arrival.
 * Responses and events overtake each other on their way here.
 * @param {State} state @param {number} asOfUs the time of the response's data @param {string} subject
 */
function journalCounts(state, asOfUs, subject) {
  return (state.touched[subject] ?? -Infinity) >= asOfUs;
}

/** When the API read the ensemble. @param {State} state @returns {number} */
const readAtUs = (state) => state.polled?.cluster.read_at_us ?? -Infinity;

/**
 * The page asks the API once a second and waits four seconds for a response: after this time without a response, the
 * state is unknown.
 */
const SILENT_AFTER_MS = 5500;

/**
 * For how long the API has not responded; null while it does, or before its first response. A broken stream and a
 * failed request together show at once that the API is unreachable.
 * @param {State} state @param {number} localMs
 */
function silenceOfApi({ heard_ms, past, link, poll_problem }, localMs) {
  if (past || heard_ms === null) return null;
  const unreachable = link === "reconnecting" && poll_problem !== null;
  return unreachable || localMs - heard_ms >= SILENT_AFTER_MS ? localMs - heard_ms : null;
}

/** @param {State} state @param {number} now_ms @param {number | null} silent_ms @returns {Ensemble} */
function ensembleWord(state, now_ms, silent_ms) {
  const { controller_id: id, controller_epoch: epoch, controller_zk_version: zk_version } = state.cluster;
  const found = state.polled?.cluster.controller;
  const age_ms = state.polled === null ? silent_ms ?? 0 : Math.max(0, now_ms - readAtUs(state) / 1000);
  const known = { stale: (found?.stale ?? false) || silent_ms !== null, age_ms };
  const journalled = { id, epoch, zk_version, ...known };
  if (found === undefined || found.controller_epoch < epoch) return journalled;
  const read = { id: found.broker_id, epoch: found.controller_epoch, zk_version: found.zk_version, ...known };
  if (found.controller_epoch > epoch) return read;
  // No broker becomes controller twice in one epoch: once the epoch has no controller, it never has one again.
  return id === -1 && state.cluster.controller_terms.length > 0 ? journalled : read;
}

/** @param {State} state @returns {Peer[]} */
function peersOf(state) {
  const { peers: told } = state.cluster;
  /** @type {Map<number, any>} */
  const read = new Map((state.polled?.cluster.peers ?? []).map((/** @type {any} */ p) => [p.id, p]));
  const ids = read.size ? [...read.keys()] : Object.keys(told).map(Number);
  return ids.map((id) => {
    const name = `peer-${id}`;
    const [journal, answer] = [told[id], read.get(id)];
    const silent = silenceOf(answer);
    if (silent) return silentPeer(id, name, answer.observer, silent);
    const newest = journal && (!answer || journalCounts(state, answer.as_of_us, name)) ? journal : answer;
    // The response's zxid is read twice a second; the journal has one at checkpoints only.
    const up = newest.process !== "down";
    // A journal without a zxid has 0, which is not a valid one.
    const zxid = state.zxids[id] ?? ((up && (journal ?? answer).last_zxid) || null);
    return {
      id, name, state: up ? newest.state : "DOWN", phase: newest.phase, leader_id: up ? newest.leader_id : -1,
      accepted_epoch: newest.accepted_epoch, current_epoch: newest.current_epoch, zxid: zxid === null ? "unknown" : hex(zxid), process: newest.process,
      pid: newest.pid, observer: answer?.observer ?? false,
      leads: newest.process === "running" && newest.state === "LEADING" && newest.phase === "BROADCAST", silent,
    };
  });
}

/**
 * The silence of a node's host. The journal's data about that node came through the same host, and is as old.
 * @param {any} answer @returns {Silent | null}
 */
const silenceOf = (answer) => (answer?.unknown?.reason === "host_silent" ? answer.unknown : null);

/** @param {number} id @param {string} name @param {boolean} observer @param {Silent} silent @returns {Peer} */
function silentPeer(id, name, observer, silent) {
  return {
    id, name, state: "UNKNOWN", phase: "unknown", leader_id: -1, accepted_epoch: 0, current_epoch: 0, zxid: "unknown",
    process: "unknown", pid: null, observer, leads: false, silent,
  };
}

/** For a process that is not managed here, only the existence of its session is known. @param {Broker} broker */
const standsAs = ({ process, ours, registered, silent }) => (silent ? "silent" : ours || registered ? process : "gone");

/** @param {State} state @param {Ensemble} ensemble @param {number} localMs @returns {Broker[]} */
function brokersOf(state, ensemble, localMs) {
  const { brokers: told } = state.cluster;
  /** @type {Map<number, any>} */
  const read = new Map((state.polled?.cluster.brokers ?? []).map((/** @type {any} */ b) => [b.id, b]));
  const ids = read.size ? [...read.keys()] : Object.keys(told).map(Number);
  return ids.map((id) => {
    const name = `broker-${id}`;
    const [journal, answer] = [told[id], read.get(id)];
    const silent = silenceOf(answer);
    const lately = !silent && journal && (!answer || journalCounts(state, answer.as_of_us, name));
    const newest = lately ? journal : answer;
    const lists = lately || (journal && journalCounts(state, readAtUs(state), "registrations")) ? journal : answer;
    const word = silent ? UNSAID : lastWord(state, journal, answer, localMs);
    const process = newest.process;
    const ours = silent !== null || process !== "unknown";
    const epoch = lists.broker_epoch;
    return {
      id, name, process, ours, pid: newest.pid, address: answer?.port ? `${answer.host}:${answer.port}` : "",
      registered: lists.registered, broker_epoch: lists.registered && epoch !== null && epoch !== -1 ? hex(epoch) : null,
      session: ours ? sessionWord(process, lists.registered, (lately ? journal : answer).session_state) : "unknown",
      is_controller: process !== "down" && newest.is_controller === true, ...word, silent,
      lost_us: ["down", "paused"].includes(process) && journal?.process === process ? journal.process_since_us : null,
      fenced_requests: Math.max(journal?.fenced_requests ?? 0, answer?.fenced_requests ?? 0),
      fenced_writes: Math.max(journal?.fenced_writes ?? 0, answer?.fenced_writes ?? 0),
      judged: silent ? { verdict: "silent", text: silenceText(silent) } : checkBelief(word, process, ensemble),
    };
  });
}

/**
 * The state of a broker's session. A process that is not active cannot report it, but its registration shows it.
 * @param {string} process @param {boolean} registered @param {string} said the broker's own report
 */
const sessionWord = (process, registered, said) => (process === "running" || process === "unknown" ? said : registered ? "not expired" : "closed");

const UNSAID = { believes_id: -1, believes_epoch: 0, age_ms: null };

/**
 * How long the session of a dead or frozen process still exists. Its last heartbeat was at most a third of the timeout
 * before, and the ensemble checks sessions once a tick: hence "about". A ZAB leader expires sessions, so none expires
 * without one, and a new leader restarts every timeout (SessionTrackerImpl).
 * @param {Pick<Model, "now_ms" | "settings" | "zab" | "quorum">} m @param {number} lost_us
 */
export function leftOfSession({ now_ms, settings, zab, quorum }, lost_us) {
  if (!quorum || (zab.known && zab.leader_id < 0)) return "session not expired: no session expires without a quorum";
  if (settings.session_timeout_ms === undefined || !zab.known) return "session not expired yet";
  const left = settings.session_timeout_ms - (now_ms - Math.max(lost_us, zab.since_us) / 1000);
  return left > 0 ? `session expires in about ${duration(left)}` : "session expires any moment now";
}

/** @param {Silent} silent */
export const silenceText = ({ host, since_us, remedy }) => `unknown since ${clockShort(since_us)}: ${host} does not respond${remedy ? `; ${remedy}` : ""}`;

/**
 * A broker's last report about the controller, and its age: the newer one of its journal and its status.
 * @param {State} state @param {any} journal @param {any} answer @param {number} localMs
 */
function lastWord(state, journal, answer, localMs) {
  const journalled_ms = journal?.believed_since_us ? journal.believed_since_us / 1000 + state.skew_ms : -Infinity;
  const reported_ms = answer && answer.believes.age_ms !== null && state.polled
    ? state.polled.at_ms - answer.believes.age_ms : -Infinity;
  // A new process without a report in the journal: an older report is from the process before it.
  const began_ms = journal?.process === "running" && !journal.believed_since_us ? journal.process_since_us / 1000 + state.skew_ms : -Infinity;
  const read_ms = reported_ms < began_ms ? -Infinity : reported_ms;
  if (Math.max(journalled_ms, read_ms) === -Infinity) return UNSAID;
  const age_ms = Math.max(journalled_ms, read_ms) > 0 ? Math.max(0, localMs - Math.max(journalled_ms, read_ms)) : null;
  if (journalled_ms > read_ms) {
    const { believed_controller_id: believes_id, believed_controller_epoch: believes_epoch } = journal;
    return { believes_id, believes_epoch, age_ms };
  }
  const { controller_id = -1, controller_epoch = 0 } = answer?.believes ?? {};
  return { believes_id: controller_id, believes_epoch: controller_epoch, age_ms };
}

/**
 * Whether a broker is right about the controller.
 * @param {{believes_id: number, believes_epoch: number, age_ms: number | null}} word
 * @param {string} process @param {Ensemble} ensemble @returns {BeliefVerdict}
 */
export function checkBelief(word, process, ensemble) {
  const says = controllerTerm(word.believes_id, word.believes_epoch);
  const is = controllerTerm(ensemble.id, ensemble.epoch);
  if (process === "down") return { verdict: "silent", text: `down; last report: ${says}` };
  if (process === "unknown") return { verdict: "silent", text: "not managed here" };
  if (word.age_ms === null) return { verdict: "silent", text: "no report yet" };
  if (says === is) return { verdict: "agrees", text: "agrees" };
  if (word.believes_epoch > ensemble.epoch) return { verdict: "ahead", text: `ahead: reports ${says}; ZooKeeper had ${is}` };
  return { verdict: "stale", text: `stale: reports ${says}; ZooKeeper has ${is}` };
}

// Within this time after a request to delete a topic, the ensemble must have shown it.
const DOOMED_US = 2_000_000;
const INTERNAL = new Set(["__consumer_offsets", "__transaction_state"]);

/** @param {Topic[]} topics @returns {string[]} The topics of users. */
export const usersTopics = (topics) => topics.map((t) => t.name).filter((name) => !INTERNAL.has(name));

/** @param {State} state @param {Map<number, string>} processes @param {any[]} faults @returns {Topic[]} */
function topicsOf(state, processes, faults) {
  /** @type {Map<string, any>} */
  const read = new Map((state.polled?.cluster.topics ?? []).map((/** @type {any} */ t) => [t.name, t]));
  /** @type {Map<string, PartitionView[]>} */
  const byTopic = new Map();
  for (const p of Object.values(state.cluster.partitions)) {
    const rows = byTopic.get(p.topic);
    if (rows) rows.push(p);
    else byTopic.set(p.topic, [p]);
  }
  const names = [...new Set([...read.keys(), ...byTopic.keys()])];
  // Kafka's own topics, with their fifty partitions, are sorted after all others.
  names.sort((a, b) => Number(INTERNAL.has(a)) - Number(INTERNAL.has(b)) || (a < b ? -1 : 1));
  const losses = lostByPartition(state.cluster.losses, state.cluster.losses_acknowledged_seq, state.cluster.topics);
  const found = [];
  for (const name of names) {
    const lately = state.polled === null || journalCounts(state, readAtUs(state), `topic ${name}`);
    if (lately ? !byTopic.has(name) : !read.has(name)) continue;
    const [journal, answer] = [byTopic.get(name) ?? [], read.get(name)];
    /** @type {Map<number, any>} */
    const rows = new Map((answer?.partitions ?? []).map((/** @type {any} */ p) => [p.partition, p]));
    const journalled = new Map(journal.map((p) => [p.partition, p]));
    // A response that was read after the request and does not show the deletion means that the deletion failed.
    const asked = state.doomed.get(name) ?? -Infinity;
    const deleting = answer?.deleting || asked > readAtUs(state) - DOOMED_US;
    const partitions = [...new Set([...journalled.keys(), ...rows.keys()])].sort((a, b) => a - b).map((number) => {
      const lost = losses.get(`${name}-${number}`) ?? NOTHING_LOST;
      const view = partitionOf(journalled.get(number), rows.get(number), processes, faults);
      return { topic: name, partition: number, deleting, ...view, ...lost };
    });
    const config = (lately && state.cluster.configs[`topics/${name}`]) || answer?.config || {};
    found.push({ name, config, deleting, partitions });
  }
  return found;
}

/**
 * @param {PartitionView | undefined} journal @param {any} answer @param {Map<number, string>} processes @param {any[]} faults
 * @returns {Omit<Partition, "topic" | "partition" | "deleting" | "gone" | "gone_committed" | "gone_open">}
 */
function partitionOf(journal, answer, processes, faults) {
  const newer = (/** @type {any} */ a, /** @type {any} */ b) =>
    a.leader_epoch - b.leader_epoch || a.partition_epoch - b.partition_epoch;
  const newest = !answer || (journal && journal.replicas.length > 0 && newer(journal, answer) >= 0) ? journal : answer;
  const { leader, leader_epoch, partition_epoch, isr, replicas } = newest;
  const silent = (/** @type {[string, number]} */ [id]) => processes.get(Number(id)) === "silent";
  const audible = (/** @type {Record<string, number> | undefined} */ told) =>
    Object.fromEntries(Object.entries(told ?? {}).filter((row) => !silent(row)));
  /** @type {Record<number, number>} */
  const ends = { ...answer?.log_end_offsets, ...audible(journal?.log_end_offsets) };
  /** @type {Record<number, number>} */
  const marks = audible(journal?.high_watermarks);
  const known = Object.values(marks);
  const high_watermark = marks[leader] ?? answer?.high_watermark ?? (known.length ? Math.max(...known) : null);
  const furthest = Math.max(0, ...replicas.map((/** @type {number} */ id) => ends[id] ?? 0));
  const end = leader in ends ? ends[leader] : furthest;
  // The leader's report on its followers is valid for the ISR in the same report.
  const reported = answer && newer(newest, answer) === 0 ? answer : null;
  const [lagging, min_isr] = [reported?.lagging ?? [], reported?.min_isr ?? null];
  const processOf = (/** @type {number} */ id) => processes.get(id) ?? "unknown";
  const rows = replicas.map((/** @type {number} */ id) => ({
    broker_id: id, leader: id === leader, in_sync: isr.includes(id), leo: ends[id] ?? null, hw: marks[id] ?? null,
    behind: id in ends ? Math.max(0, end - ends[id]) : 0, process: processOf(id),
    stuck: leader < 0 || id === leader || !isr.includes(id) ? "" : isCut(faults, leader, id) ? "cut off" : lagging.includes(id) ? "lagging" : "",
  }));
  const led_by = rows.find((/** @type {Replica} */ row) => row.leader)?.process ?? "";
  return {
    unwritable: obstacle({ leader, isr, min_isr, lagging }, processOf, faults),
    unserved: led_by === "paused" ? "frozen" : led_by === "down" || led_by === "gone" ? "dead" : "",
    leader, leader_epoch, partition_epoch, isr, eligible: newest.eligible ?? [], replicas, high_watermark,
    out_of_sync: replicas.filter((/** @type {number} */ id) => !isr.includes(id)),
    unclean: journal !== undefined && newest === journal && journal.unclean, offline: leader === -1, rows,
  };
}

/** The controller terms of the journal, ended if the ensemble is known to have no controller. @param {State} state @param {Ensemble} ensemble */
function controllerTermsOf(state, ensemble) {
  const journalled = state.cluster.controller_terms;
  const read = state.polled?.cluster.controller_terms ?? [];
  const controller_terms = journalled.length >= read.length || ensemble.epoch === state.cluster.controller_epoch ? journalled : read;
  return controller_terms.slice(-100);
}

/** Faults of links and nodes; those of requests are `requestFaultsOf`. @param {State} state */
function faultsOf(state) {
  const journalled = Object.values(state.cluster.faults).filter((f) => f.kind !== "request");
  if (!state.polled?.cluster.faults || journalCounts(state, readAtUs(state), "faults")) return journalled;
  return state.polled.cluster.faults.filter((/** @type {any} */ f) => f.kind !== "request").map((/** @type {any} */ f) => ({
    fault_id: f.id, kind: f.kind, source: f.from, target: f.to, both_ways: f.both_ways, delay_ms: f.delay_ms, bytes_per_s: f.bytes_per_s,
  }));
}

/**
 * The moment that ages refer to: a past state's own time, and the time of the last response if the API is silent.
 * @param {State} state @param {number} now_ms
 */
const momentMs = (state, now_ms) => (state.past ? state.cluster.at_us / 1000 : now_ms);

/** @param {State} state @param {Broker[]} brokers @param {number} now_ms @returns {Transaction[]} */
function transactionsOf(state, brokers, now_ms) {
  const at_ms = momentMs(state, now_ms);
  return Object.values(state.cluster.transactions).map((found) => {
    const coordinator = brokers.find((b) => b.id === found.broker_id);
    return {
      id: found.transactional_id, state: found.state, coordinator: found.broker_id,
      process: coordinator?.process ?? "unknown", silent: coordinator?.silent ?? null,
      producer: `${found.producer_id}, epoch ${found.producer_epoch}`, client: found.client_id, partitions: found.partitions,
      age_ms: found.started_ms < 0 ? null : Math.max(0, at_ms - found.started_ms),
      timeout_ms: found.timeout_ms > 0 ? found.timeout_ms : null, reported_ms: Math.max(0, at_ms - found.reported_us / 1000),
    };
  });
}

/** @param {State} state @param {Broker[]} brokers @param {number} now_ms @returns {Held[]} */
function heldOf(state, brokers, now_ms) {
  const at_ms = momentMs(state, now_ms);
  const open = Object.values(state.cluster.transactions);
  return Object.values(state.cluster.partitions).flatMap(({ topic, partition, held, high_watermarks }) => {
    if (!held) return [];
    const name = `${topic}-${partition}`;
    const holder = open.find((each) => each.producer_id === held.producer_id && each.partitions.includes(name));
    return [{
      name, offset: held.offset, high_watermark: high_watermarks[held.broker_id] ?? held.high_watermark,
      producer: `${held.producer_id}, epoch ${held.producer_epoch}`, holder: holder?.transactional_id ?? null,
      held_ms: Math.max(0, at_ms - held.since_us / 1000), leader: held.broker_id,
      process: brokers.find((b) => b.id === held.broker_id)?.process ?? "unknown",
    }];
  });
}

/** Faults of requests. Their counts are null while only the journal is known. @param {State} state */
function requestFaultsOf(state) {
  const polled = state.polled?.cluster.faults;
  if (polled && !journalCounts(state, readAtUs(state), "faults")) {
    return polled.filter((/** @type {any} */ f) => f.kind === "request").map((/** @type {any} */ f) => ({
      fault_id: f.id, text: f.text, part_of: f.part_of ?? "", used: f.used, matched: f.matched,
    }));
  }
  return Object.values(state.cluster.faults).filter((f) => f.kind === "request").map((f) => ({
    fault_id: f.fault_id, text: f.source, part_of: "", used: null, matched: null,
  }));
}

/** @param {State} state */
function workloadsOf(state) {
  if (state.past) return workloadsThen(state);
  return (state.polled?.cluster.workloads ?? []).map((/** @type {any} */ w) => {
    if (w.kind === "consumer" || w.kind === "read-process-write") {
      const journalled = state.cluster.consumers[w.id];
      if (w.state !== "running" || !journalled || journalled.consumed <= w.consumed) return w;
      const { consumed, duplicates, out_of_order, lag, partitions } = journalled;
      return { ...w, consumed, duplicates, out_of_order, lag, partitions };
    }
    const journalled = state.cluster.workloads[w.id];
    const { sent, acknowledged, failed, lost } = journalled && journalled.sent > w.sent ? journalled : w;
    return { ...w, sent, acknowledged, failed, lost };
  });
}

/** Producers and consumers according to the journal, which does not contain their settings. @param {State} state */
function workloadsThen({ cluster }) {
  const common = { state: "told", acks: null, records_per_s: null, last_error: null };
  return [
    ...Object.values(cluster.workloads).map((w) => ({ ...common, kind: "producer", id: w.workload_id, ...w })),
    ...Object.values(cluster.consumers).map((w) => ({ ...common, kind: "consumer", id: w.workload_id, group: w.group_id, ...w })),
  ];
}

/** @param {Partition[]} partitions */
const namesOf = (partitions) => named(partitions.map((p) => `${p.topic}-${p.partition}`));

/**
 * The number of acknowledged records that producers did not find again, and that no user has acknowledged as lost.
 * @param {State} state @param {(topic: string) => boolean} counts whether those of a topic count
 */
export function notFoundAgain({ cluster }, counts) {
  return Object.entries(cluster.workloads).reduce((sum, [id, w]) => sum + (counts(w.topic) ? Math.max(0, w.lost - (cluster.lost_acknowledged[id] ?? 0)) : 0), 0);
}

/** All problems in words, each with a link to the evidence. @param {State} state @param {Omit<Model, "health">} m @returns {Health} */
function health(state, m) {
  if (!state.known && state.polled === null) return { level: "unknown", word: "Connecting", reasons: [] };
  /** @type {{text: string, href: string, bad?: boolean}[]} */
  const reasons = [];
  /** @type {{text: string, href: string}[]} */
  const notes = [];
  const say = (/** @type {string} */ text, /** @type {string} */ href, bad = false) => reasons.push({ text, href, bad });
  const names = (/** @type {{name: string}[]} */ nodes) => list(nodes.map((n) => n.name.replace("-", " ")));
  const still = state.polled?.cluster.history_trouble;
  if (still) say(still, "#events", true);
  if (!m.quorum) say("no quorum", "#peers", true);
  else if (m.zab.leader_id === -1 && m.zab.known) say("the ensemble has no leader", "#peers", true);
  // An ensemble without brokers needs no controller.
  if (m.ensemble.id === -1 && m.brokers.length) say("no controller", "#controller_terms", true);
  for (const process of ["down", "paused"]) {
    const hit = [...m.peers, ...m.brokers].filter((n) => n.process === process);
    if (hit.length) say(`${names(hit)} ${process}`, hit[0].name.startsWith("peer") ? "#peers" : "#brokers");
  }
  const silent = [...m.peers, ...m.brokers].filter((n) => n.silent);
  const hosts = [...new Set(silent.map((n) => n.silent?.host ?? ""))];
  if (silent.length) {
    const text = `${names(silent)} unknown: ${list(hosts)} ${hosts.length > 1 ? "do" : "does"} not respond`;
    say(text, silent[0].name.startsWith("peer") ? "#peers" : "#brokers", silent.length === m.peers.length + m.brokers.length);
  }
  const lost = m.brokers.filter((b) => (b.process === "running" || !b.ours) && !b.registered);
  if (lost.length) say(`${names(lost)} not registered`, "#brokers");
  const wrong = m.brokers.filter((b) => b.judged.verdict === "stale");
  if (wrong.length) say(`${names(wrong)} wrong about the controller`, "#beliefs");
  // A topic goes offline during its deletion, which is not a problem.
  const partitions = m.topics.filter((t) => !t.deleting).flatMap((t) => t.partitions);
  const offline = partitions.filter((p) => p.offline);
  const [orphans, frozen] = ["dead", "frozen"].map((how) => partitions.filter((p) => p.unserved === how));
  /** @type {Map<string, Partition[]>} By reason. */
  const unwritable = new Map();
  for (const p of partitions) if (p.unwritable && !p.offline && !p.unserved) unwritable.set(p.unwritable, [...unwritable.get(p.unwritable) ?? [], p]);
  const under = partitions.filter((p) => !p.offline && p.out_of_sync.length > 0).length;
  const committed = partitions.reduce((sum, p) => sum + p.gone_open, 0);
  // Records that producers did not find again. This includes records that were acknowledged after the last report of a
  // high watermark.
  const there = new Set(m.topics.map((t) => t.name));
  const missed = notFoundAgain(state, (topic) => there.has(topic));
  const doomed = m.topics.filter((t) => t.deleting).length;
  for (const [hit, how] of /** @type {[Partition[], string][]} */ ([[offline, "offline"], [orphans, "with a dead leader"], [frozen, "with a frozen leader"]])) {
    if (hit.length) say(`${plural(hit.length, "partition")} ${how}: ${namesOf(hit)}`, "#partitions", true);
  }
  for (const [reason, hit] of unwritable) say(`${namesOf(hit)} cannot be written with acks=all: ${reason}`, "#partitions", true);
  if (m.held.length) say(`read_committed consumers wait for a transaction: ${named(m.held.map((each) => each.name))}`, "#transactions");
  if (committed) say(`at least ${plural(committed, "committed record")} lost`, "#losses");
  if (missed) say(`${plural(missed, "acknowledged record")} lost`, "#workloads");
  if (doomed) notes.push({ text: `${plural(doomed, "topic")} being deleted`, href: "#topics" });
  if (under) say(`${plural(under, "partition")} under-replicated`, "#partitions");
  if (m.faults.length) say(`${plural(m.faults.length, "fault")} injected${m.faults_known ? "" : ", last known"}: ${links(m.faults)}`, "#faults");
  const level = reasons.some((r) => r.bad) ? "bad" : reasons.length ? "warn" : "ok";
  const word = { ok: "Healthy", warn: "Degraded", bad: "Broken" }[level];
  if (m.silent_ms === null) return { level, word, reasons: [...reasons, ...notes] };
  const before = { text: `no response from the API for ${duration(m.silent_ms)}; ${word.toLowerCase()} before`, href: "#events" };
  return { level: "unknown", word: "Unknown", reasons: [before, ...reasons, ...notes] };
}
