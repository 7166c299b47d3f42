// The pure parts of lectures, scripts of faults, and the library's filter.

import assert from "node:assert/strict";
import { test } from "node:test";

import { kindOf, lectureOf, moved, written } from "../../../api/web/lecture/file.js";
import { standard } from "../../../api/web/lecture/standard.js";
import { ALL, filtered, items, subjectsOf } from "../../../api/web/library/filter.js";
import { empty, fileOf, NoScript, scriptOf, stepOf, words } from "../../../api/web/scripts/steps.js";
import { liveRun, shownRuns } from "../../../api/web/store.js";
import { hash, place } from "../../../api/web/time/hash.js";

const NODES = ["broker-1", "broker-2", "broker-3", "peer-1"];
const FORM = { node: "broker-2", other: "broker-3", both: false, delay_ms: 50, topic: "orders", count: 7, side: ["broker-1"] };

test("a lecture is the same after it is saved and opened", () => {
  const source = /** @type {any} */ ({ live: true, tabs: [], opening: {} });
  const lecture = standard(source);
  assert.equal(lecture.plays.length, 15);
  assert.deepEqual(lectureOf(JSON.parse(written(lecture))), lecture);
  assert.deepEqual(["view", "lesson", "script"], [0, 1, 14].map((i) => kindOf(lecture.plays[i])));
  assert.deepEqual(moved(lecture, 0, 2).plays[2], lecture.plays[0]);
});

test("a lecture with a mistake is rejected with its place", () => {
  const plays = (/** @type {any} */ play) => ({ zabka_lecture: 1, plays: [{ lesson: "acks" }, play] });
  for (const [content, message] of /** @type {[any, RegExp][]} */ ([
    [{ zabka_lecture: 2 }, /version 2/], [{ zabka_lecture: 1, plays: [] }, /plays/], [plays({ lesson: "a", scenario: "b" }), /play 2 has both lesson and scenario/],
    [plays({ seed: -1 }), /play 2: seed/], [plays({ script: { driver: "cores" } }), /play 2: script/], [plays({ tab: "nowhere" }), /no tab nowhere/], [plays({ notes: 7 }), /notes/],
  ])) assert.throws(() => lectureOf(content), message);
});

test("a play can be a scenario with a seed, and its event", () => {
  const play = { title: "a", notes: "", scenario: "kafka-1211", seed: 7, at: 30 };
  assert.deepEqual(lectureOf({ zabka_lecture: 1, plays: [play] }).plays, [play]);
  assert.equal(kindOf(play), "scenario");
  assert.throws(() => lectureOf({ zabka_lecture: 1, plays: [{ ...play, live: "kafka-1211" }] }), /has both scenario and/);
});

test("the number of the play is part of the address", () => {
  assert.equal(place("#lecture=3&tab=lessons")?.lecture, 3);
  assert.match(hash({ .../** @type {any} */ (place("")), lecture: 2 }), /lecture=2/);
});

test("a script is the same after it is saved and opened, and its clock has each time once", () => {
  const rows = [
    { at_ms: 8000, step: stepOf("split", FORM, NODES) }, { at_ms: 5000, step: stepOf("kill", FORM, NODES) },
    { at_ms: 5000, step: stepOf("cut", FORM, NODES) }, { at_ms: null, step: stepOf("topic", FORM, NODES) },
  ];
  const file = fileOf({ ...empty(3, 3), rows, end_ms: 20_000 });
  assert.deepEqual(file.steps, [
    { type: "Cast" }, { type: "Topic", topic: "orders", replicas: [["broker-1", "broker-2", "broker-3"]] },
    { type: "At", ms: 5000 }, { type: "Kill", nodes: ["broker-2"] }, { type: "Cut", node: "broker-2", others: ["broker-3"], both_ways: false },
    { type: "At", ms: 8000 }, { type: "Split", sides: [["broker-1"], ["broker-2", "broker-3", "peer-1"]] }, { type: "At", ms: 20_000 },
  ]);
  assert.deepEqual(file.subjects, ["election", "network"]);
  assert.deepEqual(fileOf(scriptOf(JSON.parse(JSON.stringify(file)))), file);
  assert.equal(words(file.steps[6]), "split {broker-1} | {broker-2, broker-3, peer-1}");
});

test("fields and steps that the page does not know stay in the file", () => {
  const file = { driver: "world", name: "a", title: "b", keys: { acks: "1" }, peers: 3, brokers: 0, steps: [{ type: "Wait", ms: 40 }, { type: "Hold", source: "x", target: "y", kind: "ACK" }] };
  const again = fileOf(scriptOf(file));
  assert.deepEqual(again.keys, { acks: "1" });
  assert.deepEqual(again.steps, file.steps);
});

test("a wait stays in its place between the steps of a script", () => {
  const steps = [{ type: "At", ms: 5000 }, { type: "Kill", nodes: ["broker-1"] }, { type: "Wait", ms: 6000 }, { type: "Heal" }, { type: "At", ms: 4000 }, { type: "Resume", node: "peer-1" }];
  const script = scriptOf({ driver: "world", name: "a", brokers: 0, steps });
  assert.deepEqual(script.rows.map(({ at_ms }) => at_ms), [5000, 5000, 5000, 5000]);
  assert.deepEqual(fileOf(script).steps, steps.filter(({ ms }) => ms !== 4000));
  assert.equal(words(steps[2]), "wait 6 s");
});

test("a scenario file with a wrong step is rejected with its place", () => {
  const kill = { type: "Kill", nodes: ["peer-1"] };
  for (const [step, message] of /** @type {[any, RegExp][]} */ ([
    [{ type: "Split" }, /^sides of step 2 \(Split\)/], [{ type: "Split", sides: ["broker-1"] }, /sides/], [null, /^step 2 has no type/],
    [{ type: "At", ms: "5" }, /ms/], [{ type: "Heal", nodes: "peer-1" }, /nodes/],
  ])) assert.throws(() => scriptOf({ driver: "world", name: "a", steps: [kill, step] }), (reason) => reason instanceof NoScript && message.test(reason.message));
  assert.throws(() => scriptOf({ driver: "world", steps: [] }), /its name/);
});

test("a run on this cluster is shown next to a newer simulated run until it ends", () => {
  const live_run = { id: "r1", live: true, state: "running", requested_ms: 1 };
  const run = { id: "r2", live: false, state: "ended", requested_ms: 2 };
  const of = (/** @type {any} */ live) => /** @type {any} */ ({ run, live_run: live });
  assert.deepEqual(shownRuns(of(live_run)), [run, live_run]);
  assert.equal(liveRun(of(live_run)), live_run);
  assert.deepEqual(shownRuns(of({ ...live_run, state: "ended" })), [run]);
  assert.equal(liveRun(of({ ...live_run, state: "ended" })), null);
  assert.deepEqual(shownRuns(of(null)), [run]);
});

const SCRIPTS = [
  { name: "kafka-1", title: "A lost record", hypothesis: "", source: "", switches: [], brokers: 3, running_obstacle: null, subjects: ["election"], outage: { shows: "lost write" } },
  { name: "zookeeper-1", title: "A vote", hypothesis: "", source: "", switches: [], brokers: 0, running_obstacle: "disks", subjects: ["election", "storage"], outage: null },
];
const LESSON = /** @type {any} */ ({ name: "acks", title: "acks=1", scenario: "kafka-1", question: "Which record?", answers: [] });
const RUNS = /** @type {any[]} */ ([
  { id: "live", kind: "live", title: "live", of: null }, { id: "r1", kind: "scenario", title: "A lost record", of: "kafka-1" },
  { id: "r1.bug", kind: "scenario", title: "A lost record", of: "kafka-1" }, { id: "r2", kind: "seed", title: "Seed 7", of: "7" },
]);

test("the library finds scenarios, lessons and runs by subject, system, words, and lost records", () => {
  const all = items(SCRIPTS, [LESSON], RUNS);
  const names = (/** @type {Partial<typeof ALL>} */ filter) => filtered(all, { ...ALL, kind: "", ...filter }).map((each) => each.name);
  assert.deepEqual(names({}), ["kafka-1", "zookeeper-1", "acks", "r1", "r1.bug", "r2"]);
  assert.deepEqual(names({ subject: "storage" }), ["zookeeper-1"]);
  assert.deepEqual(names({ subject: "election", system: "Kafka" }), ["kafka-1", "acks", "r1", "r1.bug"]);
  assert.deepEqual(names({ lost: true, kind: "run" }), ["r1.bug"]);
  assert.deepEqual(names({ live: true, kind: "scenario" }), ["kafka-1"]);
  assert.deepEqual(names({ text: "seed 7" }), ["r2"]);
  assert.deepEqual(subjectsOf(filtered(all, { ...ALL })), [["election", 2], ["storage", 1]]);
});
