// The page's pure parts, under node's own test runner: node --test tests/browser/js
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Actions, outcome, requests } from "../../../api/web/actions.js";
import { announcement, isAnnounced } from "../../../api/web/announcer.js";
import { apply, emptyState, fold, nodeId } from "../../../api/web/fold.js";
import { gapBefore, partsText } from "../../../api/web/gaps.js";
import { age, shortTerm, duration, hex, lastKnown, list } from "../../../api/web/format.js";
import { partitionsShown, troubled } from "../../../api/web/partition_filter.js";
import { parseExact } from "../../../api/web/json.js";
import { lostByPartition } from "../../../api/web/losses.js";
import { checkBelief, leftOfSession, model } from "../../../api/web/model.js";
import { howMany, noFault } from "../../../api/web/links/fault.js";
import { sentence, weight } from "../../../api/web/sentences.js";
import { EVENTS_MAX, newState, takeAnswer, takeChatter, takeEntry, takeHistory, takeSnapshot } from "../../../api/web/store.js";
import { follow } from "../../../api/web/stream.js";
import { together } from "../../../api/web/views/journal.js";
import { NoMoment } from "../../../api/web/source/no_moment.js";
import { Run } from "../../../api/web/time/run.js";
import { playedHere } from "../../../api/web/views/played_here.js";
import { parting } from "../../../api/web/views/scenarios.js";
import { spans } from "../../../api/web/views/controller_terms.js";
import { runLabel } from "../../../api/web/time/run_label.js";
import { links, obstacle } from "../../../api/web/writable.js";

const table = JSON.parse(readFileSync(new URL("../../../zabka/journal/sentences.json", import.meta.url), "utf8"));
const entry = (seq, node, type, body = {}) => ({
  seq, schema: 1, node, node_seq: seq, wall_us: 1_000_000 + seq, mono_us: seq, type, ...body,
});

test("an integer that a number cannot hold stays exact, as text", () => {
  const text = '{"a":117652084150566913,"b":117652084150566912,"c":-9007199254740993,"d":9007199254740991,"e":1.25e3}';
  assert.deepEqual(parseExact(text), {
    a: "117652084150566913", b: "117652084150566912", c: "-9007199254740993", d: 9007199254740991, e: 1250,
  });
});

test("digits inside of a string are left alone, whatever surrounds them", () => {
  const value = { s: 'x: 117652084150566913, "117652084150566913", \\', "117652084150566913": [true, null] };
  assert.deepEqual(parseExact(JSON.stringify(value)), value);
});

test("two sessions that differ in their last bit are two sessions", () => {
  const state = fold(['117652084150566912', '117652084150566913'].map((session, i) => entry(i + 1, `broker-${i}`,
    "broker_registered", { broker_id: i, broker_epoch: 1, session_id: session })));
  apply(state, entry(3, "peer-1", "session_closed", { session_id: "117652084150566913", ephemerals: [] }));
  assert.deepEqual([state.brokers[0].registered, state.brokers[1].registered], [true, false]);
});

test("a node's name is its role and its number", () => {
  assert.deepEqual(nodeId("broker-12"), ["broker", 12]);
  assert.deepEqual(nodeId("api"), ["", -1]);
});

test("an event of a type that is not known changes nothing but the number", () => {
  const state = fold([entry(7, "peer-1", "constructor"), entry(8, "peer-1", "no_such_type")]);
  assert.deepEqual({ ...state, seq: 0, at_us: 0 }, emptyState());
  assert.equal(state.seq, 8);
});

test("an event that does not follow asks for a snapshot, one that was seen does not", () => {
  const state = newState();
  assert.equal(takeEntry(state, entry(5, "peer-1", "node_stopped", { reason: "x" })), false);
  takeSnapshot(state, emptyState(), 10);
  assert.equal(takeEntry(state, entry(10, "peer-1", "no_such_type")), true);
  assert.equal(takeEntry(state, entry(11, "peer-1", "no_such_type")), true);
  assert.equal(takeEntry(state, entry(13, "peer-1", "no_such_type")), false);
  assert.equal(state.cluster.seq, 11);
});

test("the event list is bounded, and progress does not push events out of it", () => {
  const state = { ...newState(), sentences: table };
  takeSnapshot(state, emptyState(), 0);
  const write = (from, to, type, body) => {
    for (let seq = from; seq <= to; seq += 1) takeEntry(state, entry(seq, "broker-1", type, body));
  };
  write(1, 3000, "isr_changed", { topic: "t", partition: 0, isr: [1] });
  write(3001, 6000, "replica_progressed", { broker_id: 1, replicas: [] });
  assert.ok(state.events.length >= EVENTS_MAX && state.events.length <= EVENTS_MAX * 1.1);
  assert.equal(state.events.at(-1).seq, 3000);
});

test("history that arrives after the first live events is put before them, none twice", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 2);
  takeEntry(state, entry(3, "peer-1", "epoch_accepted", { accepted_epoch: 1 }));
  takeHistory(state, [1, 2, 3].map((seq) => entry(seq, "peer-1", "epoch_accepted", { accepted_epoch: 1 })), state.cluster);
  assert.deepEqual(state.events.map((e) => e.seq), [1, 2, 3]);
});

test("history that was asked for before another snapshot came is not put before what that one begins", () => {
  const state = newState();
  const told = (seq, node) => entry(seq, node, "epoch_accepted", { accepted_epoch: 1 });
  takeSnapshot(state, emptyState(), 9);
  const before = state.cluster;
  takeSnapshot(state, emptyState(), 3);
  takeHistory(state, [1, 2, 9].map((seq) => told(seq, "peer-of-another-history")), before);
  takeChatter(state, [told(1, "peer-of-another-history")], before);
  assert.deepEqual([state.events, state.chatter], [[], []]);
  takeEntry(state, told(4, "peer-1"));
  takeHistory(state, [2, 3].map((seq) => told(seq, "peer-1")), state.cluster);
  assert.deepEqual(state.events.map((e) => e.seq), [2, 3, 4]);
});

test("a broker is judged by what the ensemble says", () => {
  const ensemble = { id: 2, epoch: 4, zk_version: 4, stale: false };
  const word = (id, epoch, age_ms = 10) => ({ believes_id: id, believes_epoch: epoch, age_ms });
  assert.equal(checkBelief(word(2, 4), "running", ensemble).verdict, "agrees");
  assert.deepEqual(checkBelief(word(1, 3), "paused", ensemble), {
    verdict: "stale", text: "stale: reports broker 1 · epoch 3; ZooKeeper has broker 2 · epoch 4",
  });
  assert.equal(checkBelief(word(1, 3), "down", ensemble).verdict, "silent");
  assert.equal(checkBelief(word(-1, 0, null), "running", ensemble).verdict, "silent");
  assert.equal(checkBelief(word(3, 5), "running", ensemble).verdict, "ahead");
  assert.equal(checkBelief(word(1, 4), "running", { ...ensemble, id: -1 }).text, "stale: reports broker 1 · epoch 4; ZooKeeper has none · epoch 4");
});

const answer = (changes) => ({
  stale: false, read_at_us: 0, peers: [], topics: [], workloads: [], faults: [], controller_terms: [], settings: {}, brokers: [],
  controller: { broker_id: 1, controller_epoch: 3, zk_version: 3, stale: false }, ...changes,
});

test("the controller is whoever has the higher epoch, of the journal's word and the ensemble's", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  takeAnswer(state, answer({}), 1000, NaN);
  assert.equal(model(state, 1000).ensemble.id, 1);
  const elected = { broker_id: 2, controller_epoch: 4, zk_version: 4 };
  takeEntry(state, entry(1, "broker-2", "controller_elected", elected));
  assert.deepEqual(model(state, 1100).ensemble, { id: 2, epoch: 4, zk_version: 4, stale: false, age_ms: 1100 });
  takeEntry(state, entry(2, "broker-2", "controller_resigned", { ...elected, reason: "shutdown" }));
  takeAnswer(state, answer({ controller: { broker_id: 2, controller_epoch: 4, zk_version: 4, stale: false } }), 1200, NaN);
  assert.equal(model(state, 1200).ensemble.id, -1, "an answer from before the resignation does not bring it back");
});

test("a topic that is made anew has nothing of the one before it, though nobody told that it was deleted", () => {
  const elected = (leader, leader_epoch) => ({ topic: "t", partition: 0, leader, leader_epoch, isr: [leader], replicas: [leader], partition_epoch: leader_epoch });
  const made = (topic_id, replicas) => ({ topic: "t", topic_id, assignment: { 0: replicas } });
  const state = fold([
    entry(1, "broker-1", "topic_created", made("first", [1])), entry(2, "broker-1", "leader_elected", elected(1, 7)),
    entry(3, "broker-1", "topic_created", made("first", [1])), entry(4, "broker-1", "topic_created", made("second", [2])),
  ]);
  assert.deepEqual([state.partitions["t-0"].leader, state.partitions["t-0"].replicas], [-1, [2]]);
  apply(state, entry(5, "broker-1", "leader_elected", elected(2, 0)));
  assert.equal(state.partitions["t-0"].leader, 2);
});

test("a dead controller's term is taken up by nothing that befalls the process that follows it", () => {
  const became = (seq, state, action) => entry(seq, "host-1", "process_changed", { target: "broker-1", process: state, pid: state === "down" ? null : 1, action });
  const begun = [
    entry(1, "broker-1", "broker_registered", { broker_id: 1, broker_epoch: 10, session_id: "7" }),
    entry(2, "broker-1", "controller_elected", { broker_id: 1, controller_epoch: 1, zk_version: 1 }),
  ];
  const lost = (...more) => fold([...begun, ...more]).controller_terms.map((term) => [term.holder_lost_by, term.holder_lost_us, term.until_us]);
  const started = (seq) => entry(seq, "broker-1", "node_started", { role: "broker", id: 1, config: {} });
  assert.deepEqual(lost(started(3)), [["exited", 1_000_003, null]], "nobody saw the end of the one before");
  const killed = [became(3, "down", "kill"), became(4, "running", "start"), started(5), became(6, "paused", "pause"), became(7, "running", "resume")];
  assert.deepEqual(lost(...killed), [["kill", 1_000_003, null]]);
  assert.deepEqual(lost(became(3, "paused", "pause"), became(4, "down", "kill")), [["kill", 1_000_003, null]]);
});

test("where no host agent answers the faults are those that the journal told last, and it is said that nobody knows", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  takeAnswer(state, answer({ faults: null }), 1000, NaN);
  assert.deepEqual([model(state, 1000).faults, noFault(model(state, 1000))], [[], "Link faults are unknown: no host agent responds"]);
  takeEntry(state, entry(1, "host-1", "fault_injected", { fault_id: "f1", kind: "cut", source: "broker-1", target: "*", both_ways: true, delay_ms: 0 }));
  takeAnswer(state, answer({ faults: null }), 2000, NaN);
  assert.equal(howMany(model(state, 2000)), "1 fault, last known: no host agent responds");
  assert.ok(model(state, 2000).health.reasons.some((reason) => reason.text === "1 fault injected, last known: cut broker 1 ↔ all nodes"));
  takeAnswer(state, answer({ faults: [], read_at_us: 2_000_000 }), 3000, NaN);
  assert.deepEqual([model(state, 3000).faults, noFault(model(state, 3000))], [[], "No link faults"]);
});

test("of an answer and an event the later one counts, whichever came first", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  const peer = {
    id: 1, state: "LEADING", phase: "BROADCAST", leader_id: 1, accepted_epoch: 1, current_epoch: 1, last_zxid: "0x5",
    process: "running", pid: 5, observer: false,
  };
  const shown = () => model(state, 1000).peers[0].process;
  const processIs = (seq, process) => takeEntry(state, entry(seq, "host-1", "process_changed", { target: "peer-1", process, pid: null }));
  takeAnswer(state, answer({ peers: [{ ...peer, as_of_us: 1_000_000 }] }), 1000, NaN);
  processIs(1, "down");
  assert.equal(shown(), "down");
  takeAnswer(state, answer({ peers: [{ ...peer, as_of_us: 1_000_000 }] }), 9000, NaN);
  assert.equal(shown(), "down", "an answer from before the event does not undo it, however late it comes");
  takeAnswer(state, answer({ peers: [{ ...peer, as_of_us: 1_000_009 }] }), 9100, NaN);
  assert.equal(shown(), "running");
  processIs(2, "paused");
  assert.equal(shown(), "running", "nor does an event from before the answer");
});

test("a broker that was not started here is what the ensemble says of it, and no more", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  const joined = {
    id: 4, process: "unknown", pid: null, host: "10.0.0.4", port: 9092, registered: true, broker_epoch: 44,
    is_controller: true, believes: { controller_id: -1, controller_epoch: 0, age_ms: null }, session_state: "unknown",
    fenced_writes: 0, fenced_requests: 0, as_of_us: 0,
  };
  const topic = { name: "t", config: {}, deleting: false, partitions: [{
    partition: 0, leader: 4, leader_epoch: 1, partition_epoch: 1, isr: [4], replicas: [4, 1], high_watermark: 9,
    log_end_offsets: { 1: 9 },
  }] };
  const shown = (registered) => {
    takeAnswer(state, answer({ brokers: [{ ...joined, registered }], topics: [topic] }), 1000, NaN);
    return model(state, 1000);
  };
  const [broker] = shown(true).brokers;
  assert.deepEqual([broker.process, broker.session, broker.address, broker.judged.verdict], ["unknown", "unknown", "10.0.0.4:9092", "silent"]);
  const replicas = (m) => m.topics[0].partitions[0].rows.map(({ process, leo, behind }) => [process, leo, behind]);
  assert.deepEqual(replicas(shown(true))[0], ["unknown", null, 0], "an end that nobody tells is not behind");
  assert.equal(replicas(shown(false))[0][0], "gone");
  assert.ok(shown(false).health.reasons.some((r) => r.text === "broker 4 not registered"));
});

test("of a silent host's nodes no older word is shown, neither the answer's nor the journal's", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  takeEntry(state, entry(1, "peer-1", "node_started", { role: "peer", id: 1, config: {} }));
  takeEntry(state, entry(2, "broker-1", "controller_elected", { broker_id: 1, controller_epoch: 3, zk_version: 3 }));
  takeEntry(state, entry(3, "broker-1", "replica_progressed", { broker_id: 1, replicas: [["t", 0, 8, 9]] }));
  const unknown = { reason: "host_silent", host: "host-1", since_us: 1_000_500 };
  const nothing = { process: "unknown", pid: null, unknown, as_of_us: 0 };
  const topic = { name: "t", config: {}, deleting: false, partitions: [{
    partition: 0, leader: 1, leader_epoch: 1, partition_epoch: 1, isr: [1], replicas: [1], high_watermark: null,
    log_end_offsets: {},
  }] };
  const peer = { ...nothing, id: 1, state: "UNKNOWN", phase: "UNKNOWN", leader_id: null, accepted_epoch: null,
    current_epoch: null, last_zxid: null, observer: false };
  const broker = { ...nothing, id: 1, host: "127.0.0.1", port: 9092, registered: true, broker_epoch: 44, is_controller: null,
    believes: { controller_id: -1, controller_epoch: 0, age_ms: null }, session_state: "unknown" };
  takeAnswer(state, answer({ peers: [peer], brokers: [broker], topics: [topic] }), 1000, NaN);
  const m = model(state, 1000);
  assert.deepEqual([m.peers[0].process, m.peers[0].state, m.peers[0].zxid, m.peers[0].leads], ["unknown", "UNKNOWN", "unknown", false]);
  const [shown] = m.brokers;
  assert.deepEqual([shown.process, shown.session, shown.is_controller, shown.age_ms], ["unknown", "unknown", false, null]);
  assert.match(shown.judged.text, /^unknown since \d\d:\d\d:\d\d: host-1 does not respond$/);
  assert.deepEqual(m.topics[0].partitions[0].rows.map((r) => [r.process, r.leo, r.hw]), [["silent", null, null]]);
  assert.equal(m.zab.known, false);
  assert.equal(m.health.level, "bad");
  assert.deepEqual(m.health.reasons.map((r) => r.text), ["peer 1 and broker 1 unknown: host-1 does not respond"]);
});

test("a clock that differs from ours by more than the header's granularity is corrected for", () => {
  const state = newState();
  takeAnswer(state, answer({}), 100_000, 99_000);
  assert.equal(state.skew_ms, 0);
  takeAnswer(state, answer({}), 100_000, 40_000);
  assert.equal(model(state, 100_000).now_ms, 40_000);
  takeAnswer(state, answer({}), 100_000, 97_000, 96_500);
  assert.equal(state.skew_ms, 0, "an answer that was three seconds under way");
});

test("health says what is wrong, the worst first in its level", () => {
  const state = newState();
  assert.equal(model(state, 0).health.level, "unknown");
  takeSnapshot(state, emptyState(), 0);
  const health = model(state, 0).health;
  assert.equal(health.level, "bad");
  assert.deepEqual(health.reasons.map((r) => r.text), ["the ensemble has no leader"]);
});

const served = {
  peers: [{ id: 1, state: "LEADING", phase: "BROADCAST", leader_id: 1, accepted_epoch: 1, current_epoch: 1,
    last_zxid: "0x5", process: "running", pid: 5, unknown: null, observer: false, as_of_us: 0 }],
  brokers: [1, 2].map((id) => ({ id, process: "running", pid: id, unknown: null, host: "h", port: 9092, registered: true,
    broker_epoch: id, is_controller: id === 1, believes: { controller_id: 1, controller_epoch: 3, age_ms: 1 },
    session_state: "connected", fenced_writes: 0, fenced_requests: 0, as_of_us: 0 })),
};
const partition = { partition: 0, leader: 2, leader_epoch: 1, partition_epoch: 1, isr: [1, 2], replicas: [2, 1],
  high_watermark: 9, log_end_offsets: { 1: 9, 2: 9 } };
const topic = { name: "t", config: {}, deleting: false, partitions: [partition] };
const healthOf = (changes, entries = []) => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  for (const told of entries) takeEntry(state, told);
  takeAnswer(state, answer({ ...served, topics: [topic], read_at_us: 2_000_000, ...changes }), 1000, NaN);
  const { level, reasons } = model(state, 1000).health;
  return [level, ...reasons.map((r) => r.text)];
};

test("an ensemble without brokers needs no controller, but one with brokers does", () => {
  const ensemble = { ...served.ensemble, id: -1 };
  const controller = { broker_id: -1, controller_epoch: 0, zk_version: 0, timestamp_ms: null };
  assert.deepEqual(healthOf({ controller, ensemble, brokers: [], topics: [] }), ["ok"]);
  assert.ok(healthOf({ controller, ensemble }).includes("no controller"));
});

test("of nodes whose beginning is gone with their older lines, nobody is told dead, and no ensemble without a leader", () => {
  const history = readFileSync(new URL("../../golden/histories/beginnings-gone.jsonl", import.meta.url), "utf8").split("\n").filter(Boolean).map(parseExact);
  const past = { ...newState(), cluster: fold(history), known: true, past: true };
  const shown = model(past, past.cluster.at_us / 1000);
  assert.deepEqual(shown.peers.map(({ id, process }) => [id, process]), [[1, "running"], [2, "running"]]);
  assert.deepEqual(shown.brokers.map(({ id, process }) => [id, process]), [[2, "running"], [4, "down"], [9, "unknown"]]);
  const [partition] = shown.topics[0].partitions;
  assert.deepEqual([partition.leader, partition.unserved, partition.rows.map((row) => row.process)], [3, "", ["running", "unknown"]]);
  const reasons = shown.health.reasons.map((reason) => reason.text);
  assert.ok(reasons.includes("broker 4 down"), `${reasons}`);
  assert.ok(!reasons.some((text) => /dead|ensemble has no leader/.test(text)), `${reasons}`);
});

test("what is asked of a topic is asked of no other one, whatever it is called", () => {
  const asked = ["orders?x", "orders#", "orders/config", "a%2Fb", "orders.v1_x-y"].map((name) => [name, new URL(requests.deleteTopic(name).path, "http://api").pathname]);
  for (const [name, path] of asked) assert.equal(decodeURIComponent(path.split("/").slice(4).join("/")), name);
  assert.deepEqual(asked.map(([, path]) => path.split("/").length), [5, 5, 5, 5, 5]);
  assert.equal(requests.deleteTopic("orders.v1_x-y").path, "/api/v1/topics/orders.v1_x-y");
  assert.equal(requests.configure("orders?x", {}).path, "/api/v1/topics/orders%3Fx/config");
});

test("while the API says nothing, nothing is healthy and the controller is the last one known", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  const quiet = answer({ ...served, topics: [topic], read_at_us: 10_000_000 });
  takeAnswer(state, quiet, 10_000, NaN);
  const spoken = model(state, 12_000);
  assert.deepEqual([spoken.silent_ms, spoken.health.word, spoken.ensemble.stale], [null, "Healthy", false]);
  const silent = model(state, 52_000);
  assert.deepEqual([silent.silent_ms, silent.health.word, silent.ensemble.stale, silent.ensemble.age_ms], [42_000, "Unknown", true, 42_000]);
  assert.deepEqual(silent.health.reasons.map((r) => r.text), ["no response from the API for 42 s; healthy before"]);
  takeAnswer(state, quiet, 52_500, NaN);
  assert.equal(model(state, 52_500).health.word, "Healthy");
});

test("without a quorum the controller is the last one known, with the age of that word", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  const controller = { broker_id: 1, controller_epoch: 3, zk_version: 3, stale: true };
  takeAnswer(state, answer({ ...served, controller, stale: true, read_at_us: 3_000_000 }), 10_000, NaN);
  const { ensemble } = model(state, 10_000);
  assert.deepEqual([ensemble.stale, lastKnown(ensemble)], [true, "last known, 7.0 s ago"]);
});

const processOf = (seq, process, action) => entry(seq, "host-1", "process_changed", { target: "broker-2", process, pid: seq, action });
const brokerAfter = (entries, registered, at_ms, believes) => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  for (const told of entries) takeEntry(state, told);
  const brokers = served.brokers.map((b) => ({ ...b, registered, believes }));
  takeAnswer(state, answer({ ...served, brokers, read_at_us: 2_000_000 }), at_ms, NaN);
  return model(state, at_ms).brokers[1];
};

test("the session of a process that does not act stands for as long as it is registered", () => {
  const session = (process, registered) => {
    const state = newState();
    takeSnapshot(state, emptyState(), 0);
    takeAnswer(state, answer({ ...served, brokers: [{ ...served.brokers[1], process, registered }] }), 1000, NaN);
    return model(state, 1000).brokers[0].session;
  };
  assert.deepEqual(["down", "paused"].map((process) => session(process, true)), ["not expired", "not expired"]);
  assert.deepEqual(["down", "paused"].map((process) => session(process, false)), ["closed", "closed"]);
});

test("a broker that was started again has said nothing, whatever the process before it believed", () => {
  const before = [processOf(1, "running", "start"), entry(2, "broker-2", "controller_believed", { broker_id: 2, controller_id: 1, controller_epoch: 2, is_controller: false })];
  const old = { controller_id: 1, controller_epoch: 2, age_ms: 60 };
  assert.equal(brokerAfter(before, true, 1050, old).judged.verdict, "stale");
  const again = [...before, processOf(3, "down", "kill"), processOf(4, "running", "start")];
  const started = brokerAfter(again, true, 1050, old);
  assert.deepEqual([started.judged.verdict, started.judged.text], ["silent", "no report yet"]);
  assert.equal(brokerAfter(again, true, 1100, { controller_id: 1, controller_epoch: 3, age_ms: 10 }).judged.verdict, "agrees");
});

test("nobody serves what a frozen broker leads, and health says so", () => {
  const paused = served.brokers.map((b) => (b.id === 2 ? { ...b, process: "paused" } : b));
  assert.deepEqual(healthOf({ brokers: paused }), ["bad", "broker 2 paused", "1 partition with a frozen leader: t-0"]);
});

test("a partition whose leader is dead or frozen is in trouble, though its ISR is whole", () => {
  const shown = (process) => {
    const state = newState();
    takeSnapshot(state, emptyState(), 0);
    takeAnswer(state, answer({ ...served, topics: [topic], brokers: served.brokers.map((b) => ({ ...b, process })) }), 1000, NaN);
    const [found] = model(state, 1000).topics[0].partitions;
    return [found.unserved, troubled(found)];
  };
  assert.deepEqual(["running", "down", "paused"].map(shown), [["", false], ["dead", true], ["frozen", true]]);
});

test("what producers do not find again is told beside what replicas say was committed", () => {
  const producer = (seq, topic) => entry(seq, "api", "workload_progressed", { workload_id: `w-${topic}`, topic, sent: 9, acknowledged: 9, failed: 0, lost: 7 });
  assert.deepEqual(healthOf({}, [producer(1, "t"), producer(2, "deleted")]), ["warn", "7 acknowledged records lost"]);
});

test("a record that several replicas lost is one lost record", () => {
  const lost = (seq, broker_id, first_offset, last_offset, below_high_watermark) => entry(seq, `broker-${broker_id}`, "records_lost", {
    broker_id, topic: "t", partition: 0, first_offset, last_offset, count: last_offset - first_offset + 1,
    below_high_watermark, cause: "truncation" });
  assert.deepEqual(healthOf({}), ["ok"]);
  assert.deepEqual(healthOf({}, [lost(1, 1, 5, 12, 5), lost(2, 2, 7, 12, 3), lost(3, 2, 20, 20, 1)]),
    ["warn", "at least 6 committed records lost"]);
  assert.deepEqual(healthOf({}, [lost(1, 1, 5, 12, 0)]), ["ok"], "what was never committed was never promised");
});

test("a partition whose leader is dead and not yet replaced is told", () => {
  const brokers = [served.brokers[0], { ...served.brokers[1], process: "down", pid: null }];
  assert.deepEqual(healthOf({ brokers }), ["bad", "broker 2 down", "1 partition with a dead leader: t-0"]);
});

test("a topic may be called as something that every object has, or a group", () => {
  const names = ["__proto__", "constructor", "toString"];
  const { filter, trouble, unfolded, pages } = newState().ui.partitions;
  const { shown } = partitionsShown(names.map((name) => ({ ...topic, name, partitions: [{ ...partition, topic: name }] })), { filter, trouble, unfolded, pages });
  assert.deepEqual(shown.map((each) => [each.topic.name, each.partitions.length]), names.map((name) => [name, 1]));
  const group = { broker_id: 1, state: "Stable", generation_id: 1, leader_id: "m", members: ["m"] };
  const state = structuredClone(fold(names.flatMap((name, i) => [
    entry(2 * i + 1, "broker-1", "topic_created", { topic: name, topic_id: "id", assignment: {} }),
    entry(2 * i + 2, "broker-1", "group_changed", { group_id: name, ...group }),
  ])));
  assert.deepEqual([Object.keys(state.topics), Object.keys(state.groups)], [names, names]);
  apply(state, entry(7, "broker-1", "topic_deleted", { topic: "__proto__" }));
  apply(state, entry(8, "broker-1", "group_changed", { group_id: "__proto__", ...group, state: "Dead" }));
  assert.deepEqual([Object.keys(state.topics), Object.keys(state.groups)], [names.slice(1), names.slice(1)]);
});

test("a request to delete a topic that is not there dooms none, whatever it is called", () => {
  const state = newState();
  takeSnapshot(state, emptyState(), 0);
  takeEntry(state, entry(1, "api", "admin_requested", { request: "DELETE /topics/constructor", subjects: [], client: "" }));
  assert.equal(state.doomed.size, 0);
});

test("a process that was started again is not told by the words of the one before it", () => {
  const change = (seq, target, process) => entry(seq, "host-1", "process_changed", { target, process, pid: process === "down" ? null : seq, action: "x" });
  const lived = fold([
    change(1, "peer-1", "running"), change(2, "broker-1", "running"),
    entry(3, "peer-1", "peer_state_changed", { state: "LEADING", phase: "BROADCAST", leader_id: 1, round: 1, accepted_epoch: 2, current_epoch: 2, last_zxid: 9 }),
    entry(4, "broker-1", "broker_session_changed", { broker_id: 1, state: "connected", session_id: 7 }),
    change(5, "peer-1", "down"), change(6, "broker-1", "down"),
  ]);
  const told = () => [lived.peers[1].state, lived.peers[1].phase, lived.peers[1].leader_id, lived.peers[1].current_epoch, lived.brokers[1].session_state];
  assert.deepEqual(told(), ["DOWN", "ELECTION", -1, 2, "closed"]);
  apply(lived, change(7, "peer-1", "running"));
  apply(lived, change(8, "broker-1", "running"));
  assert.deepEqual(told(), ["LOOKING", "ELECTION", -1, 2, "closed"]);
});

test("a topic that is being deleted is no offline one", () => {
  const gone = { ...partition, leader: -1, isr: [2] };
  assert.deepEqual(healthOf({ topics: [{ ...topic, deleting: true, partitions: [gone] }] }), ["ok", "1 topic being deleted"]);
  assert.deepEqual(healthOf({ topics: [{ ...topic, partitions: [gone] }] }), ["bad", "1 partition offline: t-0"]);
});

test("controller_terms and the gaps between them lie side by side, the longer the wider", () => {
  const term = (id, epoch, since_us, until_us) => ({
    broker_id: id, controller_epoch: epoch, zk_version: epoch, since_us, until_us, ended_by: null,
    holder_lost_us: null, holder_lost_by: null, ready_us: null,
  });
  const found = spans([term(1, 1, 0, 60e6), term(2, 2, 66e6, 70e6), term(3, 3, 70e6, null)], 71e6);
  assert.deepEqual(found.map((s) => s.term?.broker_id ?? null), [1, null, 2, 3]);
  assert.ok(found[0].width > found[1].width && found[1].width > found[3].width && found[3].width > 0);
});

test("a term whose holder is dead is absent from the kill to the expiry, and then nobody controller_terms", () => {
  const killed = { broker_id: 1, controller_epoch: 1, zk_version: 1, since_us: 0, until_us: 65_246_000, ended_by: "session_expired",
    holder_lost_us: 60_000_000, holder_lost_by: "kill", ready_us: null };
  const next = { broker_id: 2, controller_epoch: 2, zk_version: 2, since_us: 65_310_000, until_us: null, ended_by: null,
    holder_lost_us: null, holder_lost_by: null, ready_us: 65_400_000 };
  const found = spans([killed, next], 70_000_000).map((s) => [s.kind, s.from_us, s.to_us]);
  assert.deepEqual(found, [["acts", 0, 60_000_000], ["absent", 60_000_000, 65_246_000], ["gap", 65_246_000, 65_400_000],
    ["acts", 65_400_000, 70_000_000]]);
});

test("the time without a controller runs from its freeze to the next one's first decision", () => {
  // tests/journal/test_controller_gaps.py tells what happens in it.
  const history = readFileSync(new URL("../../golden/histories/controller-gaps.jsonl", import.meta.url), "utf8").split("\n").filter(Boolean).map(parseExact);
  const { controller_terms } = fold(history);
  assert.deepEqual(controller_terms.map((_, place) => gapBefore(controller_terms, place)), [null, null,
    { from_us: 10_000_000, to_us: 21_065_000, detection_us: 5_001_900, election_us: 6_003_100, loading_us: 60_000 },
    { from_us: 30_000_000, to_us: 30_008_000, detection_us: 0, election_us: 8_000, loading_us: 0 }]);
  assert.equal(partsText(gapBefore(controller_terms, 2)), "detection 5.0 s, election 6.0 s, loading 60 ms");
});

test("a clock that is behind those of the peers leaves a controller's loading time whole", () => {
  const killed = { broker_id: 1, controller_epoch: 1, zk_version: 1, since_us: 1_000, until_us: 7_000, ended_by: "session_expired",
    holder_lost_us: 1_500, holder_lost_by: "kill", ready_us: 1_000 };
  const next = { broker_id: 2, controller_epoch: 2, zk_version: 2, since_us: 5_300, until_us: null, ended_by: null,
    holder_lost_us: null, holder_lost_by: null, ready_us: 5_900 };
  assert.deepEqual(gapBefore([killed, next], 1),
    { from_us: 1_500, to_us: 7_600, detection_us: 5_500, election_us: 0, loading_us: 600 });
});

const LEADING = { epoch: 2, leader_id: 3, known: true, since_us: 0 };

test("a dead broker's session is counted down from its death", () => {
  const of = (now_ms) => ({ now_ms, settings: { session_timeout_ms: 6000 }, zab: LEADING, quorum: true });
  assert.equal(leftOfSession(of(2_000), 1_000_000), "session expires in about 5.0 s");
  assert.equal(leftOfSession(of(7_500), 1_000_000), "session expires any moment now");
});

test("without a quorum no session is said to end", () => {
  const of = { now_ms: 60_000, settings: { session_timeout_ms: 6000 }, zab: { ...LEADING, leader_id: -1 }, quorum: true };
  assert.equal(leftOfSession(of, 1_000_000), "session not expired: no session expires without a quorum");
  assert.equal(leftOfSession({ ...of, zab: LEADING, quorum: false }, 1_000_000), "session not expired: no session expires without a quorum");
  assert.equal(leftOfSession({ ...of, zab: { ...LEADING, leader_id: -1, known: false } }, 1_000_000), "session not expired yet");
});

test("a new ZAB leader counts the timeout of a dead broker's session from its own start", () => {
  const of = { now_ms: 61_000, settings: { session_timeout_ms: 6000 }, zab: { ...LEADING, since_us: 60_000_000 }, quorum: true };
  assert.equal(leftOfSession(of, 1_000_000), "session expires in about 5.0 s");
});

test("neighbours that say the same of several nodes are one line", () => {
  const closed = (seq, node) => entry(seq, node, "session_closed", { session_id: 5, ephemerals: [] });
  const lines = together(table, [closed(4, "peer-3"), closed(3, "peer-1"), closed(2, "peer-2"), closed(1, "peer-1")]);
  assert.deepEqual(lines.map((line) => line.nodes), [["peer-3", "peer-1", "peer-2"], ["peer-1"]]);
});

test("what somebody else tells of a broker names it", () => {
  const elected = { broker_id: 4, controller_epoch: 7, zk_version: 7 };
  assert.equal(sentence(table, entry(1, "broker-4", "controller_elected", elected)), "is controller, epoch 7");
  assert.equal(sentence(table, entry(1, "api", "controller_elected", elected)), "broker 4 is controller, epoch 7");
});

test("an event of an unknown type is told by its fields", () => {
  assert.equal(sentence(table, entry(1, "x", "toString", { a: 1, b: [2] })), "a 1, b [2]");
});

test("a loss of committed records weighs more than one of uncommitted ones", () => {
  assert.equal(weight(table, entry(1, "b", "records_lost", { below_high_watermark: 1 })), "loss");
  assert.equal(weight(table, entry(1, "b", "records_lost", { below_high_watermark: 0 })), "trouble");
});

test("numbers are written as the field writes them", () => {
  assert.equal(hex(4294967310), "0x10000000e");
  assert.equal(hex("117652084150566913"), "0x1a1fbf27ae10001");
  assert.equal(shortTerm(-1, 3), "none@3");
  assert.deepEqual([duration(42), duration(6_040), duration(61_000), duration(7_260_000)], ["42 ms", "6.0 s", "1 min 01 s", "2 h 01 min"]);
  assert.equal(age(null), "no report yet");
  assert.equal(list(["a", "b", "c"]), "a, b and c");
});

test("the outcome of a call is the problem's detail, or what there is now", () => {
  assert.equal(outcome({ ok: false, status: 409, body: { title: "Conflict", detail: "it is down" } }), "it is down");
  assert.equal(outcome({ ok: false, status: 502, body: null }), "HTTP 502");
  assert.equal(outcome({ ok: true, status: 202, body: { node: "broker-1", process: "down", pid: null } }), "broker-1 is down");
  const rows = [{ topic: "t", partition: 0, error: "ELECTION_NOT_NEEDED" }, { topic: "t", partition: 1, error: null }];
  assert.equal(outcome({ ok: true, status: 200, body: rows }), "t-0: ELECTION_NOT_NEEDED");
});

test("a deletion that the ensemble has not heard of within two seconds was not begun", () => {
  const gone = { ...partition, leader: -1, isr: [] };
  const created = entry(1, "broker-1", "topic_created", { topic: "t", topic_id: "id", assignment: { 0: [2, 1] } });
  const asked = entry(2, "broker-1", "admin_requested", { request: "DeleteTopics", subjects: ["t"], client: "x" });
  assert.deepEqual(healthOf({ topics: [{ ...topic, partitions: [gone] }], read_at_us: 2_500_000 }, [created, asked])[1], "1 topic being deleted");
  assert.deepEqual(healthOf({ topics: [{ ...topic, partitions: [gone] }], read_at_us: 3_500_000 }, [created, asked])[1], "1 partition offline: t-0");
});

test("of a failover one hears who is controller and how the partitions stand after it, not every step", () => {
  const led = (seq, number, leader, epoch) => entry(seq, "broker-3", "leader_elected", { topic: "orders", partition: number, leader,
    leader_epoch: epoch, isr: leader < 0 ? [1] : [leader], replicas: [1, 2], partition_epoch: epoch, unclean: false });
  const elected = entry(1, "broker-3", "controller_elected", { broker_id: 3, controller_epoch: 9, zk_version: 9 });
  const told = [elected, led(2, 0, -1, 1), led(3, 1, -1, 1), led(4, 0, 2, 2)];
  assert.ok(told.every((each) => isAnnounced(table, each)));
  assert.equal(announcement(table, told, fold(told)), "Broker 3 is controller, epoch 9. New leaders for 1 partition. orders-1 is offline.");
  told.push(led(5, 1, 2, 2));
  assert.equal(announcement(table, told, fold(told)), "Broker 3 is controller, epoch 9. New leaders for 2 partitions; no partition is offline.");
});

test("of many offline partitions one hears the number, and of each loss of committed records", () => {
  const off = [0, 1, 2].map((number) => entry(number + 1, "broker-3", "leader_elected", { topic: "t", partition: number, leader: -1,
    leader_epoch: 1, isr: [1], replicas: [1], partition_epoch: 1, unclean: false }));
  assert.equal(announcement(table, off, fold(off)), "3 partitions are offline.");
  const lost = entry(4, "broker-1", "records_lost", { broker_id: 1, topic: "t", partition: 0, first_offset: 5, last_offset: 6, count: 2,
    below_high_watermark: 2, cause: "truncation" });
  assert.equal(announcement(table, [lost], emptyState()), "Committed records of t-0 are lost: at least 2, from offset 5.");
});

test("two stories part at their first line that is not the same", () => {
  const line = (at_ms, text) => ({ at_ms, who: "x", text });
  assert.equal(parting([line(1, "a"), line(2, "b")], [line(1, "a"), line(2, "c")]), 1);
  assert.equal(parting([line(1, "a")], [line(1, "a"), line(2, "c")]), 1);
  assert.equal(parting([line(1, "a")], [line(1, "a")]), null);
  // The same at another time is no difference: with a bug, a controller may take a millisecond longer.
  assert.equal(parting([line(1, "a"), line(2, "b")], [line(1, "a"), line(3, "b")]), null);
});

test("while a past moment is shown, a script is played in a simulated world and not on the cluster", () => {
  const actions = new Actions(newState(), () => {}, () => {});
  actions.off = "past";
  assert.deepEqual([requests.play("kafka-708"), requests.playLive("kafka-708")].map((each) => actions.allows(each)), [true, false]);
  actions.off = "";
  assert.equal(actions.allows(requests.playLive("kafka-708")), true);
});

test("a session's id in a table has all of its digits", async (context) => {
  const body = '{"table":"sessions","columns":["session_id"],"rows":[{"session_id":111411200013107201}],"total":1,"written_ms":0,"lag_ms":null}';
  context.mock.method(globalThis, "fetch", async () => new Response(body, { headers: { "content-type": "application/json" } }));
  const actions = new Actions(newState(), () => {}, () => {});
  await actions.loadTable("sessions");
  assert.equal(String(actions.state.analytics.table.rows[0].session_id), "111411200013107201");
});

test("a first page whose first event is gone is refused as gone, with the oldest that is kept", async (context) => {
  let kept = [];
  let first_seq = 700;
  context.mock.method(globalThis, "fetch", async (path) => new Response(JSON.stringify(path.includes("/journal") ? kept : { first_seq })));
  const gone = (reason) => reason instanceof NoMoment && reason.oldest === first_seq;
  await assert.rejects(new Run("live").page(0, 500), gone);
  [kept, first_seq] = [[entry(300, "peer-1", "session_closed")], 300];
  await assert.rejects(new Run("live").page(0, 500), gone);
  kept = [entry(1, "peer-1", "session_closed")];
  assert.deepEqual((await new Run("live").page(0, 1)).entries, kept);
  kept = [];
  assert.deepEqual((await new Run("live").page(0, 0)).entries, [], "a history that has not begun");
});

/** What a browser's EventSource does, told by hand. */
class FakeSource {
  static CLOSED = 2;
  /** @type {FakeSource[]} */
  static opened = [];

  constructor(url) {
    Object.assign(this, { url, readyState: 0, heard: {} });
    FakeSource.opened.push(this);
  }

  addEventListener(kind, listener) {
    this.heard[kind] = listener;
  }

  close() {
    this.readyState = FakeSource.CLOSED;
  }

  tell(kind, data, lastEventId = "") {
    if (this.readyState !== FakeSource.CLOSED) this.heard[kind]({ data, lastEventId });
  }
}

test("a stream that goes on in another history is begun anew, and in its own it goes on", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  FakeSource.opened = [];
  globalThis.EventSource = FakeSource;
  const state = newState();
  follow({
    link: () => undefined,
    snapshot: (cluster, seq) => takeSnapshot(state, cluster, seq),
    entry: (told) => takeEntry(state, told),
  });
  const [first] = FakeSource.opened;
  first.tell("history", "of the first cluster");
  first.tell("snapshot", JSON.stringify(emptyState()), "5");
  first.tell("message", JSON.stringify(entry(6, "broker-1", "controller_elected", { broker_id: 1, controller_epoch: 7, zk_version: 7 })));
  first.tell("history", "of the first cluster");
  first.tell("message", JSON.stringify(entry(7, "broker-1", "controller_resigned", { broker_id: 1, controller_epoch: 7, reason: "shutdown" })));
  assert.equal(FakeSource.opened.length, 1);
  assert.equal(state.cluster.seq, 7);

  first.tell("history", "of the cluster that was made anew in its place");
  first.tell("message", JSON.stringify(entry(8, "broker-2", "controller_elected", { broker_id: 2, controller_epoch: 9, zk_version: 9 })));
  assert.equal(state.cluster.seq, 7);
  t.mock.timers.tick(1);
  const [, second] = FakeSource.opened;
  second.tell("history", "of the cluster that was made anew in its place");
  second.tell("snapshot", JSON.stringify({ ...emptyState(), controller_epoch: 9 }), "8");
  assert.deepEqual([state.cluster.controller_epoch, state.cluster.controller_terms.length, FakeSource.opened.length], [9, 0, 2]);
});

for (const { case: name, leader, isr, min_isr, lagging, processes, faults, obstacle: expected } of JSON.parse(readFileSync(new URL("../../golden/writable.json", import.meta.url), "utf8"))) {
  test(`the page finds the same obstacle to a write as the API: ${name}`, () => {
    const held = faults.map(({ kind, from, to, both_ways }) => ({ kind, source: from, target: to, both_ways }));
    assert.equal(obstacle({ leader, isr, min_isr, lagging }, (id) => processes[id] ?? "running", held), expected);
  });
}

test("the links of one node that are cut are named together", () => {
  const cut = (source, target, both_ways = true) => ({ kind: "cut", source, target, both_ways });
  assert.equal(links([cut("broker-5", "broker-1"), cut("broker-5", "broker-2"), cut("broker-5", "peer-1")]), "cut broker 5 ↔ brokers 1 and 2 and peer 1");
  assert.equal(links([cut("broker-1", "*", false)]), "cut broker 1 → all nodes");
  assert.equal(links([{ ...cut("broker-2", "broker-2"), kind: "power_loss" }]), "power loss broker 2");
  const slow = (peer) => ({ ...cut(peer, "broker-2", false), kind: "delay" });
  const all = [slow("peer-1"), slow("peer-2"), slow("peer-3"), cut("broker-2", "broker-1"), cut("broker-2", "broker-3")];
  assert.equal(links(all.slice(0, 3)), "delay peer 1 → broker 2; delay peer 2 → broker 2; delay peer 3 → broker 2");
  assert.equal(links(all), "delay peer 1 → broker 2; delay peer 2 → broker 2; delay peer 3 → broker 2; 2 more");
});

test("an isolated leader is not shown in sync, and its partition is named as not writable", () => {
  const state = newState();
  takeSnapshot(state, fold([
    entry(1, "host-1", "process_changed", { target: "broker-1", process: "running", pid: 1, action: "start" }),
    entry(2, "host-1", "process_changed", { target: "broker-2", process: "running", pid: 2, action: "start" }),
    entry(3, "broker-1", "topic_created", { topic: "orders", topic_id: "id", assignment: { 0: [1, 2] } }),
    entry(4, "broker-1", "leader_elected", { topic: "orders", partition: 0, leader: 1, leader_epoch: 0, isr: [1, 2], replicas: [1, 2], partition_epoch: 0, unclean: false }),
    entry(5, "host-1", "fault_injected", { fault_id: "f1", kind: "cut", source: "broker-1", target: "broker-2", both_ways: true, delay_ms: 0 }),
  ]), 5);
  const shown = model(state, 2000);
  const [partition] = shown.topics[0].partitions;
  assert.deepEqual(partition.rows.map((row) => row.stuck), ["", "cut off"]);
  const texts = shown.health.reasons.map((reason) => reason.text);
  assert.equal(shown.health.level, "bad");
  assert.ok(texts.includes("orders-0 cannot be written with acks=all: its leader, broker 1, is cut off from broker 2 in its ISR"), texts.join("; "));
  assert.ok(texts.includes("1 fault injected: cut broker 1 ↔ broker 2"), texts.join("; "));
});

test("two plays of one script, and the one with its bug, have different labels that begin with what differs", () => {
  const at = (ms) => new Date(2026, 0, 2, 3, 4, 5).getTime() + ms;
  const run = (id, title, ms, variant = null) => ({ id, title, kind: "scenario", of: "kafka-1211", created_ms: at(ms), variant });
  const title = "A follower truncates committed records";
  const runs = [run("r1", title, 0), run("r1.bug", `${title}: with its bug`, 0, "with its bug"), run("r2", title, 60_000)];
  assert.deepEqual(runs.map(runLabel), ["kafka-1211 · 03:04:05", "kafka-1211 · 03:04:05, with its bug", "kafka-1211 · 03:05:05"]);
  assert.equal(runLabel({ id: "live", title: "The live cluster", kind: "live" }), "live cluster");
  assert.equal(runLabel({ id: "r3", title: "Seed 3 of ensemble", kind: "seed", of: "3", created_ms: at(0) }), "Seed 3 of ensemble · 03:04:05");
});

test("a loss that a user has acknowledged no longer counts, a later one does", () => {
  const lost = (seq, first_offset) => entry(seq, "broker-1", "records_lost", {
    broker_id: 1, topic: "t", partition: 0, first_offset, last_offset: first_offset + 9, count: 10, below_high_watermark: 10, cause: "x" });
  const counted = (...told) => {
    const state = newState();
    takeSnapshot(state, fold([
      entry(1, "broker-1", "topic_created", { topic: "t", topic_id: "id", assignment: { 0: [1] } }),
      entry(2, "api", "workload_progressed", { workload_id: "w1", topic: "t", sent: 20, acknowledged: 20, failed: 0, lost: 7 }), lost(3, 0), ...told,
    ]), 9);
    return model(state, 2000).health.reasons.map((reason) => reason.text).filter((text) => /lost/.test(text));
  };
  const acknowledged = entry(4, "api", "losses_acknowledged", { through_seq: 3, producers: { w1: 7 } });
  const more = entry(6, "api", "workload_progressed", { workload_id: "w1", topic: "t", sent: 30, acknowledged: 30, failed: 0, lost: 9 });
  assert.deepEqual(counted(), ["at least 10 committed records lost", "7 acknowledged records lost"]);
  assert.deepEqual(counted(acknowledged), []);
  assert.deepEqual(counted(acknowledged, lost(5, 10), more), ["at least 10 committed records lost", "2 acknowledged records lost"]);
});

test("losses of a deleted topic do not count for its successor", () => {
  const lost = (first_offset, committed_at_least, topic_id) => ({ at_us: 0, broker_id: 1, topic: "t", partition: 0, first_offset, last_offset: 9,
    count: 10 - first_offset, below_high_watermark: committed_at_least, cause: "x", committed_at_least, seq: 1, topic_id });
  const losses = [lost(0, 10, "old"), lost(5, 3, "new")];
  assert.deepEqual([...lostByPartition(losses, 0, { t: "new" })], [["t-0", { gone: 5, gone_committed: 3, gone_open: 3 }]]);
  assert.deepEqual([...lostByPartition(losses, 0, { t: "newest" })], []);
});

test("the age of a transaction in a past moment is its age then", () => {
  const state = { ...newState(), past: true };
  takeSnapshot(state, emptyState(), 0);
  const body = { broker_id: 2, transactional_id: "payments", state: "Ongoing", producer_id: 7, producer_epoch: 0, partitions: ["t-0"], after: "", started_ms: 900, timeout_ms: 60_000 };
  takeEntry(state, entry(1, "broker-2", "node_started", { role: "broker", id: 2, config: {} }));
  takeEntry(state, entry(2, "broker-2", "transaction_changed", body));
  const [found] = model(state, 9_000_000).transactions;
  assert.equal(Math.round(found.age_ms), 100);
  assert.deepEqual([found.id, found.coordinator, found.process], ["payments", 2, "running"]);
});

test("a transaction whose start or coordinator is unknown says so", () => {
  const state = newState();
  takeSnapshot(state, { ...emptyState(), transactions: { p: {
    transactional_id: "p", broker_id: 9, state: "Ongoing", producer_id: 7, producer_epoch: 0, partitions: [], client_id: "", started_ms: -1, timeout_ms: 0, reported_us: 0,
  } } }, 1);
  const [found] = model(state, 1000).transactions;
  assert.deepEqual([found.age_ms, found.timeout_ms, found.process], [null, null, "unknown"]);
});

test("a stopped run has restored the cluster only if it reports no problem", () => {
  const stopped = (problems) => {
    const { strings, values } = playedHere({ scenario: "s", state: "ended", error: "it was stopped", problems });
    return strings.join("") + values.slice(1).join("");
  };
  assert.match(stopped([]), /restored/);
  assert.doesNotMatch(stopped(["not undone: broker-2"]), /restored/);
  assert.match(stopped(["not undone: broker-2"]), /not undone: broker-2/);
});
