// The tracks' pure parts, under node: spans against a brute-force fold of every prefix, the clock, the layout, differences.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { apply, emptyState, fold } from "../../../api/web/fold.js";
import { parseExact } from "../../../api/web/json.js";
import { hash, place } from "../../../api/web/time/hash.js";
import { differences } from "../../../api/web/time/difference.js";
import { tickWord, ticks, timeAt, within, xOf, zoomed } from "../../../api/web/tracks/scale.js";
import { firstEnding, spanAt, Spans } from "../../../api/web/tracks/spans.js";
import { describeAt } from "../../../api/web/tracks/describe.js";
import { History } from "../../../api/web/tracks/history.js";
import { clusters, drawRate, drawSpans, labels, marksSeen, ratesSeen } from "../../../api/web/tracks/draw_rows.js";
import { readStory } from "../../../api/web/time/run.js";
import { olderLanes } from "../../../api/web/tracks/older.js";
import { layout } from "../../../api/web/tracks/layout.js";

const golden = new URL("../../golden/histories/", import.meta.url);
const histories = readdirSync(golden).filter((name) => name.endsWith(".jsonl"))
  .map((name) => [name, readFileSync(new URL(name, golden), "utf8").split("\n").filter(Boolean).map(parseExact)]);
const entry = (seq, node, type, body = {}, wall_us = 1_000_000 * seq) => ({ seq, schema: 1, node, node_seq: seq, wall_us, mono_us: seq, type, ...body });
const spansOf = (entries) => {
  const spans = new Spans(emptyState());
  for (const each of entries) spans.take(each);
  return spans;
};
const brief = (spans) => spans.map(({ state, from_us, to_us }) => [state, from_us / 1e6, to_us === null ? null : to_us / 1e6]);

/** Said of one prefix, straight from its fold, in other words than the page's readings. */
function said(state) {
  const lanes = {};
  const term = state.controller_terms.at(-1);
  if (state.controller_epoch) {
    lanes.controller = state.controller_id < 0 ? `nobody ${state.controller_epoch}`
      : `${term.holder_lost_by ? "dead" : "active"} ${state.controller_id}@${state.controller_epoch}`;
  }
  for (const broker of Object.values(state.brokers)) {
    const is = `${state.controller_id}@${state.controller_epoch}`;
    const says = `${broker.believed_controller_id}@${broker.believed_controller_epoch}`;
    lanes[`belief:${broker.id}`] = broker.process === "down" ? "down" : broker.believed_controller_epoch === 0 ? "silent"
      : says === is ? `right ${says}` : broker.believed_controller_epoch > state.controller_epoch ? `ahead ${says}` : `stale ${says}`;
  }
  for (const peer of Object.values(state.peers)) {
    const down = peer.process === "down" || peer.state === "DOWN";
    lanes[`peer:${peer.id}`] = down ? "down" : peer.state === "UNKNOWN" ? "silent" : peer.state === "LOOKING" ? "looking" : `${peer.phase === "BROADCAST" ? peer.state.toLowerCase() : "joining"} ${peer.current_epoch}`;
  }
  for (const [name, partition] of Object.entries(state.partitions)) {
    for (const id of partition.replicas) {
      lanes[`replica:${name}:${id}`] = id === partition.leader ? `leader ${partition.leader_epoch}` : partition.isr.includes(id) ? "in_sync" : "out";
    }
    const leads = state.brokers[partition.leader];
    if (partition.leader < 0) {
      if (partition.leader_epoch || partition.isr.length) lanes[`trouble:${name}`] = "offline";
    } else if (["down", "paused"].includes(leads?.process)) lanes[`trouble:${name}`] = "orphan";
  }
  for (const { group_id, broker_id, state: is, generation_id } of Object.values(state.groups)) {
    const runs = !["down", "paused"].includes(state.brokers[broker_id]?.process);
    lanes[`group:${group_id}`] = !runs ? "silent" : is.endsWith("Rebalance") ? "rebalancing" : `${is.toLowerCase()} ${generation_id}`;
  }
  return lanes;
}

const word = (lane, span) => {
  const says = span.text.split(/[ ,]/)[0];
  if (lane === "controller") return span.state === "none" ? `nobody ${span.epoch}` : `${span.state} ${span.id}@${span.epoch}`;
  if (lane.startsWith("belief")) return ["down", "silent"].includes(span.state) ? span.state : `${span.state} ${says.replace("none", "-1")}`;
  if (lane.startsWith("peer")) return ["down", "looking", "silent"].includes(span.state) ? span.state : `${span.state} ${span.epoch}`;
  if (lane.startsWith("group")) return span.epoch ? `${span.state} ${span.epoch}` : span.state;
  return span.state === "leader" ? `leader ${span.epoch}` : span.state;
};

for (const [name, entries] of histories) {
  test(`${name}: after each event every lane says what the fold of that prefix says`, () => {
    const [state, spans] = [emptyState(), new Spans(emptyState())];
    for (const each of entries) {
      apply(state, each);
      spans.take(each);
      const open = Object.fromEntries([...spans.lanes].filter(([lane]) => !lane.startsWith("topic:")).map(([lane, all]) => [lane, all.at(-1)])
        .filter(([, span]) => span.to_us === null).map(([lane, span]) => [lane, word(lane, span)]));
      assert.deepEqual(open, said(state), `after event ${each.seq}`);
    }
  });

  test(`${name}: the spans of a lane follow each other without overlapping, and change at each seam`, () => {
    for (const [lane, spans] of spansOf(entries).lanes) {
      spans.forEach((span, i) => {
        const next = spans[i + 1];
        if (next === undefined) return;
        assert.ok(span.to_us !== null && span.to_us <= next.from_us, lane);
        if (span.to_us === next.from_us) assert.notDeepEqual({ ...span, from_us: 0, to_us: 0, seq: 0 }, { ...next, from_us: 0, to_us: 0, seq: 0 });
      });
    }
  });

  test(`${name}: spans begun in the middle say from there on what those from the beginning say`, () => {
    const middle = Math.floor(entries.length / 2);
    const [whole, late] = [spansOf(entries), new Spans(fold(entries.slice(0, middle)))];
    for (const each of entries.slice(middle)) late.take(each);
    for (const [lane, spans] of late.lanes) {
      const end = whole.lanes.get(lane).at(-1);
      assert.deepEqual({ ...spans.at(-1), from_us: 0, seq: 0 }, { ...end, from_us: 0, seq: 0 }, lane);
    }
  });
}

const elected = (seq, id, epoch) => entry(seq, `broker-${id}`, "controller_elected", { broker_id: id, controller_epoch: epoch, zk_version: epoch });
const killed = (seq, id) => entry(seq, "host-1", "process_changed", { target: `broker-${id}`, process: "down", pid: null, action: "kill" });

test("after a kill the term is dead from the kill to the expiry, and then there is no controller", () => {
  const spans = spansOf([
    entry(1, "broker-1", "broker_registered", { broker_id: 1, broker_epoch: 5, session_id: 9 }), elected(2, 1, 1), killed(10, 1),
    entry(16, "peer-1", "session_closed", { session_id: 9, ephemerals: ["/controller"], caused_by: "expiry 0x9" }), elected(17, 2, 2),
  ]);
  assert.deepEqual(brief(spans.lanes.get("controller")), [["active", 2, 10], ["dead", 10, 16], ["none", 16, 17], ["active", 17, null]]);
});

test("a simulated node that crashed is down until it starts again, though no host tells it", () => {
  const spans = spansOf([
    entry(1, "broker-1", "node_started", { role: "broker", id: 1, config: {} }),
    entry(2, "world", "fault_injected", { fault_id: "f1", kind: "crash", source: "broker-1", target: "broker-1", both_ways: false, delay_ms: 0 }),
    entry(3, "broker-1", "node_started", { role: "broker", id: 1, config: {} }),
  ]);
  assert.deepEqual(brief(spans.lanes.get("belief:1")), [["silent", 1, 2], ["down", 2, 3], ["silent", 3, null]]);
});

test("a group rebalances in one span, is unknown while its coordinator is down, and ends with its deletion", () => {
  const group = (seq, broker_id, state, generation_id, members = ["a"]) =>
    entry(seq, `broker-${broker_id}`, "group_changed", { broker_id, group_id: "constructor", state, generation_id, leader_id: "", members });
  const spans = spansOf([
    entry(1, "host-1", "process_changed", { target: "broker-1", process: "running", pid: 1, action: "start" }),
    group(2, 1, "PreparingRebalance", 0), group(3, 1, "CompletingRebalance", 1), group(4, 1, "Stable", 1),
    killed(6, 1), group(8, 2, "Stable", 1), group(9, 2, "Empty", 2, []), group(10, 2, "Dead", 2, []),
  ]);
  const lane = spans.lanes.get("group:constructor");
  assert.deepEqual(brief(lane), [["rebalancing", 2, 4], ["stable", 4, 6], ["silent", 6, 8], ["stable", 8, 9], ["empty", 9, 10]]);
  assert.deepEqual(lane.map(({ text }) => text), ["rebalancing on broker 1", "generation 1 on broker 1, 1 member", "unknown: coordinator 1 does not run",
    "generation 1 on broker 2, 1 member", "generation 2 on broker 2, no members"]);
  const rows = layout(spans, [], 20, 1, 400).rows.filter(({ kind }) => kind === "group");
  assert.deepEqual(rows.map(({ label }) => label), ["group constructor"]);
});

test("an offset that two replicas lost is counted once", () => {
  const lost = (seq, id, first_offset, below_high_watermark) => entry(seq, `broker-${id}`, "records_lost", {
    broker_id: id, topic: "t", partition: 0, first_offset, last_offset: first_offset + 200, count: 201, below_high_watermark, cause: "x" });
  const spans = spansOf([lost(1, 3, 100, 65), lost(2, 2, 100, 161)]);
  assert.deepEqual(spans.lost.get("t-0").map(({ fresh }) => fresh), [65, 96]);
});

test("a truncation of records that were never committed is no loss", () => {
  const gone = entry(1, "broker-2", "records_lost", {
    broker_id: 2, topic: "t", partition: 0, first_offset: 7, last_offset: 9, count: 3, below_high_watermark: 0, cause: "diverging_epoch" });
  const spans = spansOf([gone]);
  assert.deepEqual(spans.lost.get("t-0").map(({ count, committed, fresh }) => [count, committed, fresh]), [[3, 0, 0]]);
  assert.deepEqual(spans.marks, []);
});

test("two kills at the same moment are both named", () => {
  const killed = (seq, id) => entry(seq, "host-1", "process_changed", { target: `broker-${id}`, process: "down", pid: null, action: "kill" }, 5_000_000 + seq);
  const spans = spansOf([killed(1, 2), killed(2, 3)]);
  const seen = marksSeen({ spans, from_us: 0, to_us: 1e7, now_us: 1e7, gutter: 0, width: 1000 }, { lane: "done" });
  assert.deepEqual(seen.map(({ marks }) => marks.map(({ text }) => text)), [["kill broker 2", "kill broker 3"]]);
  assert.equal(clusters(seen).length, 1);
  assert.deepEqual(labels(["kill broker 2", "kill broker 3"]), ["kill broker 2, kill broker 3", "kill b2, kill b3", "kill b2 +1", "kill +1"]);
});

test("marks that are too near for a label of their own share one, others do not", () => {
  const mark = (text, kind = "process") => ({ row: "done", at_us: 0, seq: 0, kind, text, tone: "bad" });
  const shown = [{ marks: [mark("kill broker 2")], x: 100 }, { marks: [mark("kill broker 3")], x: 106 }, { marks: [mark("start broker 2")], x: 300 }];
  assert.deepEqual(clusters(shown).map(({ from, x, marks }) => [from, x, marks.map(({ text }) => text)]),
    [[100, 106, ["kill broker 2", "kill broker 3"]], [300, 300, ["start broker 2"]]]);
  const asked = { marks: [mark("POST /brokers/2/kill", "request"), mark("kill broker 2")], x: 100 };
  assert.deepEqual(clusters([asked]).map(({ marks }) => marks.map(({ text }) => text)), [["kill broker 2"]]);
  assert.deepEqual(clusters([{ marks: [mark("POST /topics", "request")], x: 100 }])[0].marks.map(({ text }) => text), ["POST /topics"]);
});

test("a partition whose leader is cut off cannot be written from the cut to its end", () => {
  const spans = spansOf([
    entry(1, "host-1", "process_changed", { target: "broker-1", process: "running", pid: 1, action: "start" }),
    entry(2, "broker-1", "leader_elected", { topic: "t", partition: 0, leader: 1, leader_epoch: 0, isr: [1, 2], replicas: [1, 2], partition_epoch: 0, unclean: false }),
    entry(3, "host-1", "fault_injected", { fault_id: "f1", kind: "cut", source: "broker-2", target: "broker-1", both_ways: true, delay_ms: 0 }),
    entry(5, "host-1", "fault_removed", { fault_id: "f1" }),
  ]);
  assert.deepEqual(brief(spans.lanes.get("trouble:t-0")), [["blocked", 3, 5]]);
  assert.match(spans.lanes.get("trouble:t-0")[0].text, /not writable: its leader, broker 1, is cut off from broker 2/);
});

test("progress moves no lane", () => {
  const before = [elected(1, 1, 1)];
  const told = entry(2, "broker-1", "replica_progressed", { broker_id: 1, replicas: [["t", 0, 1, 2]] });
  assert.deepEqual([...spansOf([...before, told]).lanes], [...spansOf(before).lanes]);
});

test("the span at a moment is found among many, and none where there is none", () => {
  const spans = Array.from({ length: 1000 }, (_, i) => ({ from_us: i * 10, to_us: i * 10 + 8 }));
  for (const at of [0, 7, 55, 5000, 9997]) assert.equal(spanAt(spans, at), spans.find((span) => span.from_us <= at && at < span.to_us) ?? null);
  assert.equal(spanAt(spans, 59), null);
  assert.equal(firstEnding(spans, 59), 6);
});

test("a moment and its place on the tracks are each other's inverse; zooming keeps the fixed moment in its place", () => {
  const window = { from_us: 1e15, to_us: 1e15 + 9e6, width: 1000, gutter: 100 };
  for (const x of [100, 333, 1000]) assert.ok(Math.abs(xOf(window, timeAt(window, x)) - x) < 1e-3);
  const fixed = timeAt(window, 400);
  const nearer = { ...window, ...zoomed(window, 0.1, fixed) };
  assert.ok(Math.abs(xOf(nearer, fixed) - 400) < 1e-2);
  assert.deepEqual(within({ from_us: -50, to_us: 50 }, { from_us: 0, to_us: 1000 }), { from_us: 0, to_us: 100 });
  assert.deepEqual(within({ from_us: 0, to_us: 9000 }, { from_us: 0, to_us: 1000 }), { from_us: 0, to_us: 1000 });
});

test("ticks are round moments, far enough from each other, from microseconds to days", () => {
  for (const width_us of [500, 2e4, 1e6, 9e7, 4e9, 3e11]) {
    const found = ticks({ from_us: 1.7e15, to_us: 1.7e15 + width_us }, 1000, 90, tickWord);
    assert.ok(found.length >= 2 && found.length <= 12, `${width_us}: ${found.length}`);
    assert.equal(new Set(found.map(({ text }) => text)).size, found.length, `${width_us}: ${found.map(({ text }) => text)}`);
  }
});

test("a place survives its hash, and what stands by itself is left out", () => {
  const there = { run: "r12.bug", at: 1794, tab: "table", pin: 12, with: "r13", lesson: "zombie controller", lecture: 3, scenario: "chaos", seed: 7, bug: "yes" };
  assert.deepEqual(place(hash(there)), there);
  assert.equal(hash(place("")), "");
  assert.equal(hash({ ...place(""), at: 7 }), "#run=live&at=7");
  assert.equal(place("#controller_terms"), null, "an anchor on the page is no place");
  assert.deepEqual([place("#at=-1&tab=nowhere").at, place("#at=-1&tab=nowhere").tab], [null, "tracks"]);
});

test("only what changed between two moments is told", () => {
  const one = fold([entry(1, "broker-1", "broker_registered", { broker_id: 1, broker_epoch: 5, session_id: 9 }), elected(2, 1, 1)]);
  const other = structuredClone(one);
  assert.deepEqual(differences(one, other), []);
  for (const each of [killed(3, 1)]) apply(other, each);
  const found = differences(one, other).map(({ of, field, before, after }) => `${of}, ${field}: ${before} → ${after}`);
  assert.ok(found.includes("broker 1, process: down → down") === false);
  assert.ok(found.some((line) => /^controller term, broker 1 · epoch 1, holder lost by: none → kill$/.test(line)), found.join("\n"));
});

test("hovering names the lane, what it says, since when, and the event", () => {
  const spans = spansOf([entry(1, "broker-1", "broker_registered", { broker_id: 1, broker_epoch: 5, session_id: 9 }), elected(2, 1, 1), killed(10, 1)]);
  const set = layout(spans, [], 24, 1, 0);
  const window = { from_us: 0, to_us: 20e6, now_us: 20e6, first_us: 0, width: 1150, height: 500, gutter: 150, scrolled: 0, layout: set, spans };
  const controller = set.pinned.find((row) => row.lane === "controller");
  const told = describeAt(window, xOf(window, 12e6), controller.top + 5);
  assert.match(told.text, /^Controller: broker 1 · epoch 1, dead, session not expired yet\. From .*, so far 10 s, event 10$/);
  assert.equal(told.seq, null);
  assert.equal(describeAt(window, xOf(window, 10e6) + 2, controller.top + 5).seq, 10, "at its beginning its event is hit");
});

test("a history that cannot be read is asked for again after a while, from the oldest number that is kept, and hoards nothing meanwhile", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const [asked, answers] = [[], [[503, { detail: "no" }], [200, []], [410, { detail: "gone", oldest: 40 }], [200, []], [200, { state: emptyState() }]]];
  context.mock.method(globalThis, "fetch", async (path) => {
    asked.push(path);
    const [status, body] = answers.shift();
    return new Response(JSON.stringify(body), { status });
  });
  const ms = context.mock.method(performance, "now", () => 1);
  const history = new History("live", () => undefined);
  await history.begin(20, 60, []);
  assert.equal(history.trouble, "no");
  assert.equal(history.rests, true);
  for (let seq = 61; seq < 100; seq += 1) history.take(elected(seq, 1, 1), new Set());
  assert.deepEqual(history.waiting, []);
  ms.mock.mockImplementation(() => 10_000);
  assert.equal(history.rests, false);
  await history.begin(20, 99, []);
  assert.equal(history.trouble, "gone");
  await history.begin(20, 99, []);
  assert.equal(history.trouble, "");
  assert.match(asked.at(-1), /state\?at=39$/);
});

test("the story of a run whose oldest events are gone begins with the oldest that is kept, and says so", async (context) => {
  const asked = [];
  const story = async (first_seq) => {
    context.mock.method(globalThis, "fetch", async (path) => {
      asked.push(path);
      if (!path.includes("/journal")) return new Response(JSON.stringify({ first_seq, last_seq: first_seq + 1 }));
      return new Response(JSON.stringify([elected(first_seq, 2, 2)]), { headers: { "x-looked-through": String(first_seq + 1) } });
    });
    const { entries, whole, first_seq: begins } = await readStory("live", ["txn_logged"], 100);
    return [entries.map(({ seq }) => seq), whole, begins];
  };
  assert.deepEqual(await story(700), [[700], true, 700]);
  assert.match(asked.at(-1), /after=699&/);
  assert.deepEqual(await story(1), [[1], true, 1]);
  assert.match(asked.at(-1), /after=0&/);
});

test("where the API has not looked back to the beginning, the tracks begin where it stopped, with the state of then, and go on from there", async (context) => {
  // Nine hundred lines of progress in a row, which no track shows; the API looks through four hundred for one answer.
  const LOOKED = 400;
  const history_of = [elected(1, 1, 1), elected(2, 2, 2), elected(950, 3, 3)];
  context.mock.method(globalThis, "fetch", async (path) => {
    const { searchParams: said } = new URL(path, "http://api");
    if (path.includes("/state")) return new Response(JSON.stringify({ state: { ...fold(history_of.filter(({ seq }) => seq <= said.get("at"))), seq: Number(said.get("at")) } }));
    const until = Number(said.get("until"));
    const through = Math.max(1, until - LOOKED + 1);
    return new Response(JSON.stringify(history_of.filter(({ seq }) => seq >= through && seq <= until)), { headers: { "x-looked-through": String(through) } });
  });
  const history = new History("live", () => undefined);
  await history.begin(1, 1000, []);
  const controller_terms = () => history.spans.lanes.get("controller").map(({ id, from_us }) => [id, from_us / 1e6]);
  assert.deepEqual([controller_terms(), history.whole], [[[2, 2], [3, 950]], false]);
  for (let turn = 0; turn < 5 && !history.whole; turn += 1) await history.older(1, []);
  assert.deepEqual([controller_terms(), history.whole], [[[1, 1], [2, 2], [3, 950]], true]);
});

test("a history whose oldest events have gone meanwhile is whole where the API has nothing older to look through", async (context) => {
  context.mock.method(globalThis, "fetch", async (path) => {
    if (path.includes("/state")) return new Response(JSON.stringify({ state: fold([elected(49, 1, 1)]) }));
    const until = Number(new URL(path, "http://api").searchParams.get("until"));
    return new Response("[]", { headers: { "x-looked-through": String(Math.min(50, until + 1)) } });
  });
  const history = new History("live", () => undefined);
  await history.begin(20, 60, []);
  await history.older(20, []);
  assert.deepEqual([history.whole, history.begins], [true, 50]);
});

test("what the page holds of events that the API keeps no longer stays as it was, with the state from which it began", async (context) => {
  // The page has read from 50 on; meanwhile everything up to 59 has gone.
  const events = [elected(50, 1, 1), elected(70, 2, 2)];
  let oldest = 50;
  context.mock.method(globalThis, "fetch", async (path) => {
    const { searchParams: said } = new URL(path, "http://api");
    const at = Number(said.get("at"));
    if (path.includes("/state") && at < oldest - 1) return new Response(JSON.stringify({ detail: "gone", oldest }), { status: 410 });
    if (path.includes("/state")) return new Response(JSON.stringify({ state: { ...fold(events.filter(({ seq }) => seq <= at)), seq: at } }));
    const until = Number(said.get("until"));
    const through = until < oldest ? until + 1 : oldest;
    return new Response(JSON.stringify(events.filter(({ seq }) => seq >= through && seq <= until)), { headers: { "x-looked-through": String(through) } });
  });
  // Asked for the oldest number the API has said the old one, or the new one already.
  for (const first_seq of [20, 60]) {
    oldest = 50;
    const history = new History("live", () => undefined);
    await history.begin(20, 90, []);
    const shown = () => [history.spans.lanes.get("controller").map(({ id, from_us }) => [id, from_us / 1e6]), history.begins];
    assert.deepEqual(shown(), [[[1, 50], [2, 70]], 50]);
    oldest = 60;
    await history.older(first_seq, []);
    assert.deepEqual([...shown(), history.whole, history.trouble], [[[1, 50], [2, 70]], 50, true, ""]);
  }
});

test("before as many events as are kept the lanes are those that the API tells, and meet the others without a gap", async (context) => {
  const asked = [];
  const spans = [
    { from_us: 1e6, to_us: 3e6, state: "active", value: { broker_id: 1, controller_epoch: 1 }, seq: 1 },
    { from_us: 3e6, to_us: null, state: "active", value: { broker_id: 2, controller_epoch: 2 }, seq: 3 },
  ];
  context.mock.method(globalThis, "fetch", async (path) => {
    asked.push(path);
    if (path.includes("/spans")) return new Response(JSON.stringify({ first_us: 1e6, last_us: 9e6, lanes: [{ lane: "controller", kind: "controller", spans }] }));
    if (path.includes("/state")) return new Response(JSON.stringify({ state: fold([elected(3, 2, 2)]) }));
    return new Response(JSON.stringify([elected(6, 3, 3), elected(7, 1, 4)]));
  });
  const history = new History("r1", () => undefined, 2);
  await history.begin(1, 7, []);
  assert.equal(history.whole, false);
  await history.older(1, []);

  assert.match(asked.at(-1), /\/runs\/r1\/spans\?to=3000000&bins=2000/);
  assert.deepEqual(history.spans.lanes.get("controller").map(({ id, epoch, from_us, to_us }) => [id, epoch, from_us / 1e6, to_us && to_us / 1e6]),
    [[1, 1, 1, 3], [2, 2, 3, 6], [3, 3, 6, 7], [1, 4, 7, null]]);
  assert.deepEqual([history.whole, history.merged_us, history.spans.first_us], [true, 3e6, 1e6]);
});

test("spans that the API tells are read as the page reads them itself", () => {
  const told = (lane, kind, state, value) => ({ lane, kind, spans: [{ from_us: 0, to_us: 10, state, value, seq: 1 }] });
  const lanes = olderLanes([
    told("belief:broker-2", "belief", "stale", { controller_id: 1, controller_epoch: 3 }), told("peer:1", "peer", "LEADING", { phase: "BROADCAST", epoch: 4 }),
    told("isr:a-b-0", "isr", "gone", { replica: 3, role: "out", leader_epoch: 7 }), told("isr:a-b-1", "isr", "leaderless", { replica: -1, leader: 2 }),
    told("peer:2", "peer", "FOLLOWING", { phase: "SYNCHRONIZATION", epoch: 4 }), told("faults", "faults", "cut", {}),
  ], 100);
  const said = Object.fromEntries([...lanes].map(([lane, [span]]) => [lane, [span.state, span.id, span.process]]));
  assert.deepEqual(said, {
    "belief:2": ["stale", 1, "running"], "peer:1": ["leading", -1, "running"], "replica:a-b-0:3": ["out", 3, "down"], "trouble:a-b-1": ["orphan", 2, "down"],
    "peer:2": ["joining", -1, "running"],
  });
});

/** A canvas that only notes which bars are filled, where lines begin and go, and what is written, and the colours of a page. */
function canvas() {
  const [bars, moves, lines, words] = [[], [], [], []];
  const noted = { bars, moves, lines, words, fillStyle: "", moveTo: (x) => moves.push(x), lineTo: (x) => lines.push(x), fillText: (text) => words.push(text) };
  const ctx = new Proxy({ ...noted, fillRect: (x, y, width, height) => bars.push({ x, y, width, height, color: ctx.fillStyle }), measureText: () => ({ width: 10 }) }, {
    get: (of, name) => (name in of ? of[name] : () => undefined),
    set: (of, name, value) => Reflect.set(of, name, value),
  });
  const colors = new Proxy({}, { get: (_, name) => name });
  const palette = { colors, scale: 1, size: 12, font: "serif", looks: new Map(), broker: (id) => `b${id}`, hatched: (_, line) => line, dotted: (_, line) => line,
    width: () => 10 };
  return { ctx, palette };
}

/** What a row of these spans looks like, in a window from 0 to 1000 seconds that is 1000 pixels wide. */
function rowOf(kind, spans) {
  const { ctx, palette } = canvas();
  const row = { kind, lane: "lane", top: 0, height: 20, extent: 20, id: 1, under: "", label: "", strong: false };
  const of = { from_us: 0, to_us: 1e9, now_us: 1e9, first_us: 0, width: 1000, height: 100, gutter: 0, scrolled: 0, palette,
    spans: { lanes: new Map([["lane", spans]]), lost: new Map(), marks: [], rates: new Map() } };
  drawSpans(ctx, of, row);
  return ctx.bars;
}
const term = (state, from_s, to_s) => ({ state, id: 1, epoch: 1, text: state, process: "running", from_us: from_s * 1e6, to_us: to_s * 1e6, seq: from_s });

test("a row of ten thousand spans draws no more than one bar for each of its pixels", () => {
  const bars = rowOf("controller", Array.from({ length: 10_000 }, (_, i) => term(i % 2 ? "active" : "dead", i / 10, (i + 1) / 10)));
  assert.ok(bars.length <= 1001, `${bars.length}`);
  assert.ok(bars.length >= 990, `${bars.length}`);
});

test("a counter that was not told of for a while stood still, and what came then came within the last second", () => {
  const points = [[0, 0], [1, 50], [2, 100], [8, 400], [9, 450]].map(([at, done]) => ({ at_us: at * 1e6, done, failed: 0, broken: 0 }));
  const found = ratesSeen({ from_us: 0, to_us: 10e6, width: 1000, gutter: 0 }, points);
  assert.deepEqual(found.map(({ since_us, at_us, rate }) => [since_us / 1e6, at_us / 1e6, rate]),
    [[0, 1, 50], [1, 2, 50], [2, 7, 0], [7, 8, 300], [8, 9, 50]]);
  assert.ok(!found.some(({ unknown }) => unknown));
});

/** A producer that sends 50 records a second and tells of them, in lines of these numbers. @param {number[]} numbers */
function rateOf(numbers) {
  const spans = new Spans(emptyState());
  numbers.forEach((n, i) => spans.take({ seq: i + 1, node: "api", node_seq: n, wall_us: n * 1e6, mono_us: n * 1e6, type: "workload_progressed",
    workload_id: "w1", topic: "orders", sent: 50 * n, acknowledged: 50 * n, failed: 0, lost: 0 }));
  return spans.rates.get("w1").points;
}

test("where counter lines are missing the rate is unknown and an average, and no moment has a spike", () => {
  const points = rateOf([1, 2, 3, 9, 10]);
  for (const [width, unknown] of [[1000, [[3, 9, 50]]], [10, [[3, 9, 50]]], [3, [[1, 9, 50]]]]) {
    const found = ratesSeen({ from_us: 0, to_us: 11e6, width, gutter: 0 }, points);
    assert.deepEqual(found.filter((each) => each.unknown).map(({ since_us, at_us, rate }) => [since_us / 1e6, at_us / 1e6, rate]), unknown, `${width}`);
    assert.ok(found.every(({ rate }) => rate === 50));
  }
  assert.ok(!ratesSeen({ from_us: 0, to_us: 11e6, width: 1000, gutter: 0 }, rateOf([1, 2, 3, 4, 5])).some(({ unknown }) => unknown));
});

test("what is unknown is not part of the line, and whoever points at it is told so", () => {
  const spans = { rates: new Map([["w1", { points: rateOf([1, 2, 3, 9, 10]) }]]), lanes: new Map(), lost: new Map(), marks: [] };
  const row = { kind: "rate", label: "orders, acked/s", lane: "w1", under: "", id: -1, top: 0, height: 30, extent: 30 };
  const layout = { pinned: [row], rows: [], pinned_height: 30, height: 30 };
  const { ctx, palette } = canvas();
  const of = { from_us: 0, to_us: 11e6, now_us: 11e6, first_us: 0, width: 1100, height: 30, gutter: 0, scrolled: 0, palette, spans, layout };
  assert.match(describeAt(of, 600, 15).text, /unknown because journal lines are missing; 50\/s on average/);
  assert.doesNotMatch(describeAt(of, 250, 15).text, /unknown/);
  drawRate(ctx, of, row);
  assert.ok(ctx.moves.includes(900), "the line goes on behind the gap");
  assert.ok(!ctx.lines.includes(900), "and not through it");
  assert.ok(ctx.words.includes("unknown: journal lines missing"));
});

test("a rate that stops is at nothing from that moment on, and does not sink to it", () => {
  const spans = { rates: new Map([["w1", { points: rateOf([1, 2, 3, 4, 5, 6, 7, 8]).filter((_, i) => i < 3 || i > 6) }]]), lanes: new Map(), lost: new Map(), marks: [] };
  const row = { kind: "rate", label: "orders, acked/s", lane: "w1", under: "", id: -1, top: 0, height: 30, extent: 30 };
  const { ctx, palette } = canvas();
  drawRate(ctx, { from_us: 0, to_us: 11e6, now_us: 11e6, first_us: 0, width: 1100, height: 30, gutter: 0, scrolled: 0, palette, spans, layout: { pinned: [row], rows: [] } }, row);
  assert.equal(ctx.lines.filter((x) => x === 300).length, 2, "down where it stopped");
});

const led = entry(1, "broker-1", "leader_elected", { topic: "t", partition: 0, leader: 1, leader_epoch: 1, isr: [1], replicas: [1], partition_epoch: 1, controller_epoch: 1, unclean: false, cause: "", eligible: [] });
const held = (seq) => entry(seq, "broker-1", "last_stable_offset_held", { broker_id: 1, topic: "t", partition: 0, leader_epoch: 1, last_stable_offset: 4, high_watermark: 9, producer_id: 7, producer_epoch: 0, held_ms: 10_000 });
const released = (seq) => entry(seq, "broker-1", "last_stable_offset_released", { broker_id: 1, topic: "t", partition: 0, leader_epoch: 1, last_stable_offset: 9, high_watermark: 9, held_ms: 20_000 });

test("a held offset is a span from the time at which the transaction held it, not from its report", () => {
  const spans = spansOf([led, held(21), released(31)]);
  assert.deepEqual(brief(spans.lanes.get("trouble:t-0")), [["held", 11, 31]]);
  assert.equal(spans.topics.get("t").unserved, 0);
});

test("a held offset begins neither before the history nor inside of the trouble before it", () => {
  assert.deepEqual(brief(spansOf([led, held(5)]).lanes.get("trouble:t-0")), [["held", 1, null]]);
  const down = (seq, process) => entry(seq, "host-1", "process_changed", { target: "broker-1", process, pid: null, action: "pause" });
  const spans = spansOf([led, down(2, "paused"), down(20, "running"), held(21)]);
  assert.deepEqual(brief(spans.lanes.get("trouble:t-0")), [["orphan", 2, 20], ["held", 20, null]]);
});

test("spans beside the window are not drawn", () => {
  assert.equal(rowOf("controller", [term("active", -50, -10), term("active", 1200, 1300)]).length, 0);
});

test("of spans on the same pixel the one that matters most is seen, over what lies beside it", () => {
  const bars = rowOf("controller", [term("active", 0, 500), term("dead", 500, 500.1), term("none", 500.1, 500.2), term("active", 500.2, 1000)]);
  assert.deepEqual(bars.at(-1), { x: 500, y: 4, width: 1, height: 12, color: "bad" });
});
