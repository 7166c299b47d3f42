// The bodies of request faults, as the form makes them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { narrowing, rule } from "../../../api/web/views/request_faults.js";

test("a name in upper case is an API of Kafka", () => {
  assert.deepEqual(rule({ request: "Produce", effect: "error", value: "NOT_LEADER_OR_FOLLOWER", topic: "orders", group: "", times: "2" }), {
    kind: "request", api: "Produce", effect: "error", error: "NOT_LEADER_OR_FOLLOWER", topic: "orders", times: 2,
  });
});

test("a name in lower case is an operation of ZooKeeper", () => {
  assert.deepEqual(rule({ request: "create", effect: "delay_after", value: "50", path: "/a", times: "0" }), {
    kind: "request", opcode: "create", effect: "delay_after", delay_ms: 50, path: "/a",
  });
});

test("empty fields are left out", () => {
  assert.deepEqual(narrowing({ topic: "", group: "g", other: "x" }), { group: "g" });
});
