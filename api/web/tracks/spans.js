// Spans of a history, built event by event: the states of each lane, and the marks of actions and their effects. Pure.
// Only lanes that an event can change are read again.

import { apply, nodeId } from "../fold.js";
import { plural } from "../format.js";
import { committedAtLeast } from "../losses.js";
import { beliefReading, controllerReading, groupReading, peerReading, replicaReading, topicReading, troubleReading } from "./readings.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../fold.js").ClusterState} ClusterState
 * @typedef {import("./readings.js").Reading} Reading
 * @typedef {Reading & {from_us: number, to_us: number | null, seq: number}} Span  `seq` is the event that began it.
 * @typedef {{row: "done" | "came", at_us: number, seq: number, kind: string, text: string, tone: "good" | "warn" | "bad"}} Mark
 * @typedef {{at_us: number, seq: number, broker: number, count: number, committed: number, fresh: number}} Lost  `committed`: how many of the
 *   records were committed; `fresh`: committed offsets that no replica lost before.
 * @typedef {{at_us: number, done: number, failed: number, broken: number}} Point  Counters of a producer or consumer, and the number of
 *   places up to there with missing journal lines.
 * @typedef {{id: string, kind: "producer" | "consumer", topic: string, points: Point[]}} Rate
 */

/** @type {Record<string, "good" | "warn" | "bad">} */
const ACTION_TONES = { kill: "bad", stop: "bad", exited: "bad", pause: "warn", stopped: "warn", resume: "good", start: "good", restart: "good" };
/** Events of these types change no lane, however many there are. */
const STILL = new Set(["replica_progressed", "zxid_checkpoint", "session_created", "txn_logged", "txn_committed", "txn_proposed"]);

/** Troubles of a partition whose leader serves. */
const SERVED = new Set(["blocked", "held"]);

export class Spans {
  /** @param {ClusterState} state the initial state, owned by this object from now on */
  constructor(state) {
    this.state = state;
    this.first_us = state.at_us;
    /** @type {Map<string, Span[]>} By lane: controller, belief:1, peer:1, trouble:t-0, replica:t-0:1, topic:t, group:g. */
    this.lanes = new Map();
    /** @type {Mark[]} */
    this.marks = [];
    /** @type {Map<string, Lost[]>} By partition. */
    this.lost = new Map();
    /** @type {Map<string, Rate>} */
    this.rates = new Map();
    /** @type {Map<string, Set<number>>} All brokers that ever had a replica, by partition. */
    this.replicas = new Map();
    /** @type {Map<string, {topic: string, unserved: boolean, short: boolean}>} */
    this.standing = new Map();
    /** @type {Map<string, {all: number, unserved: number, short: number}>} */
    this.topics = new Map();
    /** The number of each node's last line, and how many gaps there were. @type {Map<string, {last: number, broken: number}>} */
    this.lines = new Map();
    /** The number of changes: a drawing of the same version is up to date. */
    this.version = 0;
    this.#readAll();
  }

  /** The last event's number. */
  get seq() {
    return this.state.seq;
  }

  /** The number of spans. */
  get count() {
    let sum = 0;
    for (const spans of this.lanes.values()) sum += spans.length;
    return sum;
  }

  /** Process the next event. @param {Entry} entry */
  take(entry) {
    this.version += 1;
    if (this.first_us === 0) this.first_us = entry.wall_us;
    const [term, nodes] = [this.#term(), [entry.node, entry.target ?? ""].map(nodeId)];
    const processes = nodes.map(([role, id]) => this.#process(role, id));
    const cuts = this.#cuts();
    apply(this.state, entry);
    this.#number(entry);
    this.#mark(entry);
    nodes.forEach(([role, id], i) => {
      if (this.#process(role, id) === processes[i]) return;
      this.#readNode(role, id);
      if (role === "broker") this.#readPartitionsOf(id);
      if (role === "broker") this.#readGroups();
    });
    if (STILL.has(entry.type)) return;
    this.#set("controller", controllerReading(this.state));
    if (term !== this.#term()) this.#readBeliefs();
    for (const [role, id] of nodes) this.#readNode(role, id);
    if (cuts !== this.#cuts()) this.#readPartitions();
    // Events about a broker without a journal here come from another node.
    if (entry.broker_id !== undefined) this.#readNode("broker", entry.broker_id);
    if (entry.sender_id !== undefined) this.#readNode("broker", entry.sender_id);
    if (entry.type === "broker_registered") this.#readPartitionsOf(entry.broker_id);
    if (entry.type === "group_changed") this.#readGroup(entry.group_id);
    if (entry.type === "topic_deleted") this.#dropTopic(entry.topic);
    else if (entry.type === "topic_created") for (const number of Object.keys(entry.assignment)) this.#readPartition(`${entry.topic}-${number}`);
    else if (entry.topic !== undefined && entry.partition !== undefined) this.#readPartition(`${entry.topic}-${entry.partition}`);
  }

  /** The cut links: a partition whose leader is cut off is not writable. */
  #cuts() {
    return Object.values(this.state.faults).map(({ fault_id, kind }) => (kind === "cut" ? fault_id : "")).join();
  }

  #term() {
    return `${this.state.controller_id}@${this.state.controller_epoch}`;
  }

  /** @param {string} role @param {number} id */
  #process(role, id) {
    return (role === "broker" ? this.state.brokers : role === "peer" ? this.state.peers : {})[id]?.process;
  }

  #readAll() {
    this.#set("controller", controllerReading(this.state));
    this.#readBeliefs();
    for (const id of Object.keys(this.state.peers)) this.#readPeer(Number(id));
    this.#readPartitions();
    this.#readGroups();
  }

  #readGroups() {
    for (const name of Object.keys(this.state.groups)) this.#readGroup(name);
  }

  /** @param {string} name */
  #readGroup(name) {
    this.#set(`group:${name}`, groupReading(this.state, name));
  }

  #readPartitions() {
    for (const name of Object.keys(this.state.partitions)) this.#readPartition(name);
  }

  #readBeliefs() {
    for (const id of Object.keys(this.state.brokers)) this.#readBelief(Number(id));
  }

  /** @param {number} id */
  #readBelief(id) {
    this.#set(`belief:${id}`, beliefReading(this.state, id));
  }

  /** @param {number} id */
  #readPeer(id) {
    this.#set(`peer:${id}`, peerReading(this.state, id));
  }

  /** @param {string} role @param {number} id */
  #readNode(role, id) {
    if (role === "broker") this.#readBelief(id);
    if (role === "peer") this.#readPeer(id);
  }

  /** @param {number} id */
  #readPartitionsOf(id) {
    for (const [name, partition] of Object.entries(this.state.partitions)) if (partition.replicas.includes(id)) this.#readPartition(name);
  }

  /** @param {string} name */
  #readPartition(name) {
    const partition = this.state.partitions[name];
    if (partition === undefined) return;
    const trouble = troubleReading(this.state, partition);
    this.#set(`trouble:${name}`, trouble);
    const replicas = this.replicas.get(name) ?? new Set();
    for (const id of partition.replicas) replicas.add(id);
    this.replicas.set(name, replicas);
    for (const id of replicas) this.#set(`replica:${name}:${id}`, replicaReading(this.state, partition, id));
    const short = partition.replicas.some((id) => !partition.isr.includes(id));
    this.#count(partition.topic, name, { topic: partition.topic, unserved: trouble !== null && !SERVED.has(trouble.state), short });
  }

  /** @param {string} topic @param {string} name @param {{topic: string, unserved: boolean, short: boolean} | null} now */
  #count(topic, name, now) {
    const before = this.standing.get(name);
    if (before && now && before.unserved === now.unserved && before.short === now.short) return;
    const counts = this.topics.get(topic) ?? { all: 0, unserved: 0, short: 0 };
    counts.all += Number(now !== null) - Number(before !== undefined);
    counts.unserved += Number(now?.unserved ?? false) - Number(before?.unserved ?? false);
    counts.short += Number(now?.short ?? false) - Number(before?.short ?? false);
    this.topics.set(topic, counts);
    if (now === null) this.standing.delete(name);
    else this.standing.set(name, now);
    this.#set(`topic:${topic}`, topicReading(counts.unserved, counts.short, counts.all));
  }

  /** @param {string} topic */
  #dropTopic(topic) {
    for (const [name, { topic: of }] of [...this.standing]) {
      if (of !== topic) continue;
      this.#count(topic, name, null);
      this.#set(`trouble:${name}`, null);
      for (const id of this.replicas.get(name) ?? []) this.#set(`replica:${name}:${id}`, null);
    }
  }

  /** Set the state of a lane; null if it has none. @param {string} lane @param {Reading | null} reading */
  #set(lane, reading) {
    let spans = this.lanes.get(lane);
    if (spans === undefined) {
      if (reading === null) return;
      spans = [];
      this.lanes.set(lane, spans);
    }
    const last = spans.at(-1);
    const open = last !== undefined && last.to_us === null ? last : null;
    if (reading !== null && open !== null && same(open, reading)) return;
    if (reading === null && open === null) return;
    if (open !== null) open.to_us = this.state.at_us;
    if (reading === null) return;
    // Before its first event nothing is known of a history.
    const from_us = Math.max(this.first_us, last?.to_us ?? 0, Math.min(reading.since_us ?? Infinity, this.state.at_us));
    spans.push({ ...reading, from_us, to_us: null, seq: this.state.seq });
  }

  /** @param {Entry} e */
  #mark(e) {
    const say = (/** @type {Mark["row"]} */ row, /** @type {string} */ kind, /** @type {string} */ text, /** @type {Mark["tone"]} */ tone) =>
      this.marks.push({ row, at_us: this.state.at_us, seq: e.seq, kind, text, tone });
    if (e.type === "process_changed") say("done", "process", `${e.action} ${e.target.replace("-", " ")}`, ACTION_TONES[e.action] ?? "warn");
    else if (e.type === "fault_injected") say("done", "fault", faultWord(e), "warn");
    else if (e.type === "fault_removed") say("done", "healed", `heal ${e.fault_id}`, "good");
    else if (e.type === "admin_requested") say("done", "request", e.request, "good");
    else if (e.type === "topic_created") say("came", "topic", `topic ${e.topic}`, "good");
    else if (e.type === "session_expired") say("came", "expired", "session expired", "warn");
    else if (e.type === "write_fenced" || e.type === "request_fenced") say("came", "fenced", "fenced", "warn");
    else if (e.type === "invariant_violated") say("came", "violated", `VIOLATED: ${e.invariant}`, "bad");
    else if (e.type === "leader_elected" && e.unclean) say("came", "unclean", "UNCLEAN", "warn");
    else if (e.type === "records_lost") this.#lose(e, say);
    else if (e.type === "workload_progressed") this.#rate("producer", e, e.acknowledged, e.failed);
    else if (e.type === "consumer_progressed") this.#rate("consumer", e, e.consumed, 0);
  }

  /** @param {Entry} e @param {(row: "done" | "came", kind: string, text: string, tone: "good" | "warn" | "bad") => void} say */
  #lose(e, say) {
    const name = `${e.topic}-${e.partition}`;
    const here = this.state.losses.filter(
      (loss) => loss.topic === e.topic && loss.partition === e.partition && loss.topic_id === (e.topic_id ?? ""));
    const fresh = committedAtLeast(here) - committedAtLeast(here.slice(0, -1));
    const committed = here.at(-1)?.committed_at_least ?? 0;
    const all = this.lost.get(name) ?? [];
    all.push({ at_us: this.state.at_us, seq: e.seq, broker: e.broker_id, count: e.count, committed, fresh });
    this.lost.set(name, all);
    if (committed > 0) say("came", "lost", `lost at least ${plural(committed, "committed record")} on broker ${e.broker_id}`, "bad");
  }

  /** @param {"producer" | "consumer"} kind @param {Entry} e @param {number} done @param {number} failed */
  #rate(kind, e, done, failed) {
    let rate = this.rates.get(e.workload_id);
    if (rate === undefined) {
      rate = { id: e.workload_id, kind, topic: e.topic, points: [] };
      this.rates.set(e.workload_id, rate);
    }
    rate.points.push({ at_us: this.state.at_us, done, failed, broken: this.lines.get(e.node)?.broken ?? 0 });
  }

  /** Count missing lines. Nodes that report counters write nothing that the tracks leave out, so every gap is real. @param {Entry} e */
  #number({ node, node_seq }) {
    const of = this.lines.get(node);
    if (of === undefined) {
      this.lines.set(node, { last: node_seq, broken: 0 });
      return;
    }
    if (node_seq > of.last + 1) of.broken += 1;
    of.last = Math.max(of.last, node_seq);
  }
}

/** @param {Span} span @param {Reading} reading */
const same = (span, reading) => span.state === reading.state && span.id === reading.id && span.epoch === reading.epoch
  && span.process === reading.process && span.text === reading.text;

/** @param {Entry} e */
const faultWord = (e) => (e.source === e.target ? `${e.kind.replaceAll("_", " ")} ${e.target.replace("-", " ")}`
  : `${e.kind} ${e.source} ${e.both_ways ? "↔" : "→"} ${e.target === "*" ? "all" : e.target}`);

/** The span of a lane at a moment. @param {Span[]} spans @param {number} at_us @returns {Span | null} */
export function spanAt(spans, at_us) {
  const found = spans[firstEnding(spans, at_us)];
  return found && found.from_us <= at_us ? found : null;
}

/** The index of the first span that ends after a moment. @param {Span[]} spans @param {number} at_us */
export function firstEnding(spans, at_us) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle].to_us ?? Infinity) > at_us) high = middle;
    else low = middle + 1;
  }
  return low;
}
