// The pure parts of the space-time diagram.
import assert from "node:assert/strict";
import { test } from "node:test";

import { axis, suited } from "../../../api/web/messages/axis.js";
import { lanes } from "../../../api/web/messages/lanes.js";
import { phases } from "../../../api/web/messages/phases.js";
import { pointedAt, scene } from "../../../api/web/messages/scene.js";
import { burst, fitted, moved, zoomed } from "../../../api/web/messages/window.js";
import { label, details } from "../../../api/web/messages/words.js";
import { emptyState } from "../../../api/web/fold.js";

const message = (id, sent_us, arrived_us, from, to, kind = "PROPOSAL", others = {}) => ({
  id, sent_us, arrived_us, from, to, class: "broadcast", kind, subject: { op: "multi" }, bytes: null, answers: null, lost: null, ...others,
});
const event = (seq, wall_us, node, type, body = {}) => ({ seq, schema: 1, node, node_seq: seq, wall_us, mono_us: wall_us, type, ...body });
const measure = (text) => text.length * 6;
const PAIR = [{ name: "peer-1", role: "" }, { name: "peer-2", role: "" }];
const WINDOW = { from_us: 0, to_us: 10_000 };
const drawn = (messages, others = {}) => scene({
  messages, events: [], lanes: PAIR, phases: [], kind: "true", window: WINDOW, width: 1000, measure, ...others,
});

test("true time is in proportion, and each axis keeps the order and can be read backwards", () => {
  const moments = [100, 200, 5_000, 5_050, 9_000];
  const straight = axis("true", moments, 0, 10_000, 100, 1100);
  assert.equal(straight.x(5_000), 600);
  for (const kind of ["true", "folded", "steps"]) {
    const found = axis(kind, moments, 0, 10_000, 100, 1100);
    const xs = [0, ...moments, 10_000].map(found.x);
    assert.deepEqual(xs, [...xs].sort((a, b) => a - b), kind);
    for (const us of moments) assert.ok(Math.abs(found.us(found.x(us)) - us) < 1, `${kind} ${us}`);
    assert.ok(xs[0] >= 100 && xs.at(-1) <= 1100.001);
  }
});

test("dense moments have even spacing by default, and spread ones have real time", () => {
  const dense = Array.from({ length: 100 }, (_, n) => 1_000 + n * 60);
  assert.equal(suited(dense, 0, 10_000, 1_000), "steps");
  const spread = Array.from({ length: 20 }, (_, n) => n * 500);
  assert.equal(suited(spread, 0, 10_000, 1_000), "true");
  assert.equal(suited([100, 101, 102], 0, 10_000, 1_000), "true");
});

test("a burst is cut to its first and its last message", () => {
  const asked = burst([50_000], 50_000, "simulated");
  assert.deepEqual(asked, { from_us: 48_000, to_us: 60_000 });
  // One sixth of what was asked for has messages.
  assert.deepEqual(fitted(asked, [49_000, 50_000, 51_000]), { from_us: 48_900, to_us: 51_100 });
  assert.deepEqual(fitted(asked, []), asked);
  assert.deepEqual(fitted(asked, [48_010, 59_990]), asked);
});

test("on an axis of even spacing half of the moments are left by zooming in once", () => {
  const moments = [0, 1, 2, 3, 4, 5_000, 6_000, 7_000, 10_000];
  const even = axis("steps", moments, 0, 10_000, 0, 800);
  assert.deepEqual(zoomed({ from_us: 0, to_us: 10_000 }, 0.5, 4, even), { from_us: 2, to_us: 6_000 });
  assert.deepEqual(zoomed({ from_us: 0, to_us: 10_000 }, 2, 4, even), { from_us: 0, to_us: 19_996 });
  // A moment at the left edge stays at that edge.
  assert.deepEqual(zoomed({ from_us: 0, to_us: 10_000 }, 0.5, 0), { from_us: 0, to_us: 5_000 });
});

test("a long idle time is folded to one width, however long it was", () => {
  const found = axis("folded", [100, 200, 900_000, 900_100], 0, 1_000_000, 0, 1000);
  assert.deepEqual(found.folds.map(({ us }) => us), [899_800, 99_900]);
  assert.ok(found.x(900_000) - found.x(200) < 30);
  assert.ok(found.x(200) - found.x(100) > 100);
});

test("one step an event makes all steps alike", () => {
  const found = axis("steps", [100, 200, 900_000], 0, 1_000_000, 0, 400);
  assert.deepEqual([100, 200, 900_000].map(found.x), [100, 200, 300]);
});

test("names do not collide, and what finds no room is counted", () => {
  const crowd = Array.from({ length: 120 }, (_, n) => message(n, 50 * n, 50 * n + 400, "peer-1", "peer-2"));
  const found = drawn(crowd);
  const boxes = found.names.map(({ text, x, y }) => ({ x, y, width: measure(text), height: 11 }));
  for (const [place, a] of boxes.entries()) {
    for (const b of boxes.slice(place + 1)) {
      const apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
      assert.ok(apart, `${JSON.stringify(a)} ${JSON.stringify(b)}`);
    }
  }
  assert.equal(found.names.length + found.unnamed, crowd.length);
  assert.ok(found.unnamed > 0);
});

test("every message is drawn: as an arrow, as a loop, or as a stub where it never arrived", () => {
  const found = drawn([message(1, 100, 900, "peer-1", "peer-2"), message(2, 100, 120, "peer-1", "peer-1"), message(3, 200, null, "peer-2", "peer-1")]);
  assert.deepEqual(found.arrows.map(({ shape }) => shape), ["arrow", "loop", "stub"]);
  const [, , stub] = found.arrows;
  assert.ok(stub.y2 > found.lanes[0].y && stub.y2 < stub.y1);
});

test("an arrow never runs backwards", () => {
  const found = drawn([message(1, 500, 500, "peer-1", "peer-2", "ACK", { lost: "the clocks" })]);
  assert.ok(found.arrows.every(({ x1, x2 }) => x2 >= x1));
});

test("what is pointed at is the nearest: an event before a message", () => {
  const found = drawn([message(1, 1_000, 9_000, "peer-1", "peer-2")], {
    events: [{ entry: event(7, 1_000, "peer-1", "leader_established"), us: 1_000, text: "leads", weight: "election" }],
  });
  const [arrow] = found.arrows;
  assert.equal(pointedAt(found, arrow.x1, arrow.y1).entry.seq, 7);
  assert.equal(pointedAt(found, (arrow.x1 + arrow.x2) / 2, (arrow.y1 + arrow.y2) / 2).message.id, 1);
  assert.equal(pointedAt(found, arrow.x1, arrow.y2 + 30), null);
});

test("lanes are peers, brokers, then others, each in the order of numbers", () => {
  const state = emptyState();
  const talk = [message(1, 0, 1, "broker-10", "broker-2"), message(2, 0, 1, "writer", "peer-3"), message(3, 0, 1, "client-kafka", "peer-1")];
  assert.deepEqual(lanes(talk, state).map(({ name }) => name), ["peer-1", "peer-3", "broker-2", "broker-10", "client-kafka", "writer"]);
});

test("the window is the burst around the moment", () => {
  const times = [0, 500_000, 501_000, 504_000, 900_000];
  const found = burst(times, 501_000, "simulated");
  assert.ok(found.from_us < 500_000 && found.from_us > 490_000);
  assert.ok(found.to_us > 504_000 && found.to_us < 520_000);
  const closer = zoomed(found, 0.5, 502_000);
  assert.ok(closer.from_us < 502_000 && closer.to_us > 502_000);
  assert.ok(Math.abs((closer.to_us - closer.from_us) * 2 - (found.to_us - found.from_us)) < 3);
  assert.equal(moved(found, 1).from_us, found.to_us);
});

test("a failover's phases follow on each other from the session's end to the last answer", () => {
  const events = [
    event(1, 1_000, "peer-3", "session_expired", { session_id: 7 }), event(2, 3_000, "peer-3", "session_closed", { session_id: 7 }),
    event(3, 5_000, "broker-2", "controller_elected", { broker_id: 2 }),
  ];
  const told_ = [
    message(1, 7_000, 7_500, "broker-2", "peer-3", "multi", { subject: { names: ["check /controller_epoch", "setData /brokers/topics/a/partitions/0/state"] } }),
    message(2, 9_000, 9_500, "broker-2", "broker-1", "LeaderAndIsr"), message(3, 9_800, 11_000, "broker-1", "broker-2", "LeaderAndIsr answer"),
    message(4, 900_000, 900_100, "broker-2", "broker-1", "LeaderAndIsr"),
  ];
  const found = phases(events, told_, (entry) => entry.wall_us);
  assert.deepEqual(found.map(({ name, from_us, to_us }) => [name, from_us, to_us]), [
    ["expire", 1_000, 3_000], ["elect", 3_000, 5_000], ["read", 5_000, 7_000], ["decide", 7_000, 9_000], ["propagate", 9_000, 11_000],
  ]);
  // Detection begins with the death of the controller, which may lie before the window.
  const died = { broker_id: 1, controller_epoch: 1, zk_version: 1, since_us: -9_000, until_us: 3_000, ended_by: "session_expired",
    holder_lost_us: -4_000, holder_lost_by: "kill", ready_us: -8_000 };
  const [first, second] = phases(events, told_, (entry) => entry.wall_us + 100_000, [died]);
  assert.deepEqual([first.name, first.from_us, first.to_us], ["detect", 96_000, 103_000]);
  assert.deepEqual([second.name, second.from_us, second.to_us], ["elect", 103_000, 105_000]);
});

test("an election's phases are those of the peer that leads in the end", () => {
  const of = (seq, us, node, state, phase) => event(seq, us, node, "peer_state_changed", { state, phase });
  const found = phases([
    of(1, 10, "peer-1", "LOOKING", "ELECTION"), of(2, 20, "peer-2", "LOOKING", "ELECTION"), of(3, 30, "peer-2", "LEADING", "DISCOVERY"),
    of(4, 60, "peer-2", "LEADING", "SYNCHRONIZATION"), of(5, 100, "peer-2", "LEADING", "BROADCAST"),
  ], [], (entry) => entry.wall_us);
  assert.deepEqual(found.map(({ name, from_us, to_us }) => [name, to_us - from_us]), [["vote", 10], ["discover", 30], ["synchronise", 40]]);
});

test("a message is told with who, what, when, how long, and why it never arrived", () => {
  const lost = message(1, 1_000, null, "peer-1", "peer-2", "Notification", { class: "election", subject: { vote: 3 }, lost: "the link was cut" });
  assert.equal(label(lost), "vote 3");
  const lines = details(lost, (us) => `${us} us`);
  assert.deepEqual(lines, ["peer-1 → peer-2: Notification", "election, sent 1000 us", "never arrived: the link was cut", "vote 3"]);
});
