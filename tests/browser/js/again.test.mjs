// "Add a fault for the next request like this": the fields that a message fills in.

import assert from "node:assert/strict";
import { test } from "node:test";

import { likeMessage } from "../../../api/web/messages/again.js";

/** @param {Record<string, unknown>} given */
const message = (given) => ({ id: 1, sent_us: 0, arrived_us: 1, from: "shop-1", to: "broker-1", class: "data", kind: "Produce", subject: {}, bytes: null, answers: null, lost: null, ...given });

test("a produce names its client, broker and topic", () => {
  assert.deepEqual(likeMessage(message({ subject: { acks: -1, names: ["my-orders-0", "other-1"] } })), {
    request: "Produce", node: "broker-1", client_id: "shop-1", topic: "my-orders",
  });
});

test("a request of a group names the group", () => {
  assert.deepEqual(likeMessage(message({ class: "group", kind: "Heartbeat", subject: { group: "billing" } })), {
    request: "Heartbeat", node: "broker-1", client_id: "shop-1", group: "billing",
  });
});

test("a topic that only its id names is left out", () => {
  assert.deepEqual(likeMessage(message({ kind: "Fetch", from: "client", subject: { names: ["topic 1a2b3c4d-0 from 5"] } })), { request: "Fetch", node: "broker-1" });
});

test("an operation of ZooKeeper names its path", () => {
  assert.deepEqual(likeMessage(message({ from: "client", to: "peer-2", class: "client", kind: "create", subject: { xid: 1, path: "/locks/a" } })), {
    request: "create", node: "peer-2", path: "/locks/a",
  });
});

test("answers, watches and messages between peers cannot be matched", () => {
  for (const given of [{ kind: "Produce answer" }, { to: "client" }, { to: "peer-1", class: "client", kind: "watch" }, { to: "peer-1", class: "broadcast", kind: "PROPOSAL" }]) {
    assert.equal(likeMessage(message(given)), null);
  }
});
