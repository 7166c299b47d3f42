// The pure parts of links, and of two runs side by side.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { align } from "../../../api/web/compare/align.js";
import { injection } from "../../../api/web/links/fault.js";
import { clients, faultyLinks, nodeAt, path, places, SIZE } from "../../../api/web/links/ring.js";
import { Answers } from "../../../api/web/why/answers.js";

const table = JSON.parse(readFileSync(new URL("../../../zabka/journal/sentences.json", import.meta.url), "utf8"));

/** @param {number} seq @param {number} at_us @param {string} node @param {number} to */
const cut = (seq, at_us, node, to) => ({ seq, wall_us: at_us, node, type: "log_truncated", broker_id: 4, topic: "orders", partition: 0, from_offset: 6, to_offset: to, leader_epoch: 1, cause: "" });
const silent = { seq: 9, wall_us: 5, node: "broker-1", type: "records_appended" };

test("what both say stands in one row, by the time since each began", () => {
  const rows = align(table, [cut(1, 100, "broker-1", 5), cut(2, 300, "broker-2", 4)], [cut(1, 1100, "broker-1", 5), cut(5, 1400, "broker-2", 4)], { a: 0, b: 1000 });
  assert.deepEqual(rows.map((row) => [row.at_us, row.a?.seq, row.b?.seq]), [[100, 1, 1], [300, 2, 5]]);
});

test("what one says alone stands beside nothing, and what follows is together again", () => {
  const rows = align(table, [cut(1, 100, "broker-1", 5), cut(2, 200, "broker-2", 3), cut(3, 300, "broker-3", 2)], [cut(1, 100, "broker-1", 5), cut(2, 300, "broker-3", 2)], { a: 0, b: 0 });
  assert.deepEqual(rows.map((row) => [row.a?.seq ?? null, row.b?.seq ?? null]), [[1, 1], [2, null], [3, 2]]);
});

test("a history that ends is followed by the rest of the other, and no event comes twice", () => {
  const one = [cut(1, 100, "broker-1", 5)];
  const other = [cut(1, 90, "broker-9", 1), cut(2, 100, "broker-1", 5), cut(3, 150, "broker-1", 4), cut(4, 151, "broker-2", 4)];
  const rows = align(table, one, other, { a: 0, b: 0 });
  assert.deepEqual(rows.map((row) => [row.a?.seq ?? null, row.b?.seq ?? null]), [[null, 1], [1, 2], [null, 3], [null, 4]]);
});

test("what no story tells is left out", () => {
  assert.deepEqual(align(table, [silent], [], { a: 0, b: 0 }), []);
});

test("a cut names no delay, and a delay does", () => {
  const body = (/** @type {any} */ manner) => /** @type {any} */ (injection("broker-1", "*", manner).body);
  assert.deepEqual(body({ kind: "cut", both_ways: true, delay_ms: 200 }), { from: "broker-1", to: "*", kind: "cut", both_ways: true });
  assert.deepEqual(body({ kind: "delay", both_ways: false, delay_ms: 70 }), { from: "broker-1", to: "*", kind: "delay", both_ways: false, delay_ms: 70 });
});

test("brokers stand above peers, within the ring's square, and none on another", () => {
  for (const [brokers, peers] of [[3, 3], [7, 5], [1, 1], [12, 7]]) {
    const all = places(Array.from({ length: brokers }, (_, i) => `broker-${i + 1}`), Array.from({ length: peers }, (_, i) => `peer-${i + 1}`));
    for (const at of all) {
      assert.ok(at.x > 20 && at.x < SIZE - 20 && at.y > 20 && at.y < SIZE - 20);
      assert.equal(at.y < SIZE / 2, !at.peer);
      assert.equal(nodeAt(all, at)?.name, at.name);
    }
  }
});

test("no node is at the ring's middle, and a link begins outside its node", () => {
  const all = places(["broker-1", "broker-2"], ["peer-1"]);
  assert.equal(nodeAt(all, { x: SIZE / 2, y: SIZE / 2 }), null);
  const [x, y] = path(all[0], all[1], true, all).slice(1).split(/[Q ]/).map(Number);
  assert.ok(Math.abs(Math.hypot(x - all[0].x, y - all[0].y) - 27) < 0.2);
});

test("a client's link reaches the nodes of its kind, and touches no other node", () => {
  const nodes = places(["broker-1", "broker-2", "broker-3"], ["peer-1", "peer-2", "peer-3"]);
  const fault = (source, target) => ({ source, target, both_ways: true });
  const drawn = (...faults) => faultyLinks(faults, nodes, clients(faults)).map(({ from, to }) => `${from.name} ${to.name}`);
  const toAll = (source, role) => [1, 2, 3].map((id) => `${source} ${role}-${id}`);
  assert.deepEqual(drawn(fault("client:a", "*")), toAll("client:a", "broker"));
  assert.deepEqual(drawn(fault("session:0x1", "*")), toAll("session:0x1", "peer"));
  assert.deepEqual(drawn(fault("10.0.0.7", "*")), [...toAll("10.0.0.7", "broker"), ...toAll("10.0.0.7", "peer")]);
  assert.deepEqual(drawn(fault("*", "client:a")), [1, 2, 3].map((id) => `broker-${id} client:a`));
  assert.deepEqual(drawn(fault("broker-1", "broker-9"), fault("broker-2", "broker-2")).slice(1), []);
  const [above] = clients([fault("watcher", "peer-2")]);
  const control = Number(path(above, nodes[4], true, nodes).split(/[Q ]/)[2]);
  assert.equal([above.of, above.x, nodes[1].x, nodes[4].x].join(), `client,${SIZE / 2},${SIZE / 2},${SIZE / 2}`);
  assert.ok(Math.abs(control - SIZE / 2) > 60, "the broker between the two is avoided");
});

test("each client of a fault is one end, whose long name is shortened", () => {
  const ends = clients([["client:a", "broker-1"], ["broker-2", "client:a"], [`client:${"b".repeat(99)}`, "*"], ["10.0.0.7:40000", "*"],
    ["fe80::1", "*"], ["dead", "broker-1"], ["peer-1", "peer-1"]].map(([source, target]) => ({ source, target })));
  assert.deepEqual(ends.map(({ of }) => of), ["client", "client", "address", "address", "client"]);
  assert.deepEqual(ends.map(({ label }) => label), ["a", `${"b".repeat(13)}…`, "10.0.0.7:40000", "fe80::1", "dead"]);
  assert.equal(new Set(ends.map(({ x, y }) => `${x} ${y}`)).size, ends.length);
});

test("an answer about the live run is asked for anew after a while, and the last one stands meanwhile; others stay", async (context) => {
  let asked = 0;
  const ask = async () => (asked += 1);
  let now = 1;
  context.mock.method(performance, "now", () => now);
  const answers = new Answers();
  const told = (path) => new Promise((resolve) => answers.of(path, () => resolve(answers.of(path, () => undefined, ask).value), ask));
  for (const path of ["/runs/r1/divergence?from=live", "/runs/live/why?seq=1"]) {
    const first = await told(path);
    assert.equal(answers.of(path, () => undefined, ask).value, first);
    now += 20_000;
    let news = () => undefined;
    const came = new Promise((resolve) => (news = resolve));
    assert.deepEqual([answers.of(path, news, ask).state, answers.of(path, news, ask).value], ["ready", first]);
    await came;
    assert.equal(answers.of(path, () => undefined, ask).value, first + 1);
  }
  const first = await told("/runs/r1/why?seq=1");
  now += 20_000;
  assert.equal(answers.of("/runs/r1/why?seq=1", () => undefined, ask).value, first);
});
