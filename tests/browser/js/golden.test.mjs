// The page's fold and its sentences against the golden files, which tests/journal/test_golden.py holds Python's to.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { fold } from "../../../api/web/fold.js";
import { parseExact } from "../../../api/web/json.js";
import { isProgress, sentence, spoken, weight } from "../../../api/web/sentences.js";

const here = (path) => new URL(path, import.meta.url);
const text = (path) => readFileSync(here(path), "utf8");
const lines = (path) => text(path).split("\n").filter(Boolean).map(parseExact);
const golden = "../../golden/";
const histories = readdirSync(here(`${golden}histories/`)).filter((name) => name.endsWith(".jsonl"));
const table = JSON.parse(text("../../../zabka/journal/sentences.json"));

for (const history of histories) {
  test(`${history} folds to its golden state`, () => {
    const state = fold(lines(`${golden}histories/${history}`));
    assert.deepEqual(state, parseExact(text(`${golden}histories/${history.replace(".jsonl", ".state.json")}`)));
  });
}

test("an event of a type in no history moves nothing but the place in the history", () => {
  const told = histories.map((history) => lines(`${golden}histories/${history}`));
  const folded = new Set(told.flat().map((entry) => entry.type));
  for (const before of [[], ...told]) {
    for (const { entry } of lines(`${golden}sentences.jsonl`)) {
      if (folded.has(entry.type)) continue;
      const after = fold([...before, { ...entry, seq: 1e6, wall_us: 2 ** 50 }]);
      assert.deepEqual(after, { ...fold(before), seq: 1e6, at_us: 2 ** 50 });
    }
  }
});

test("there are golden histories", () => assert.ok(histories.length > 3));

test("every golden sentence is said, weighs as much, and is spoken and kept as it is to be", () => {
  const all = lines(`${golden}sentences.jsonl`);
  assert.ok(all.length > 60);
  for (const { entry, sentence: said, weight: weighs, spoken: heard = "", progress = false } of all) {
    const found = [sentence(table, entry), weight(table, entry), spoken(table, entry), isProgress(table, entry)];
    assert.deepEqual(found, [said, weighs, heard, progress]);
  }
});

test("an event that the table does not know is told by its fields, and is plain", () => {
  const entry = { seq: 1, schema: 1, node: "peer-1", node_seq: 1, wall_us: 1, mono_us: 1, type: "constructor", a: [1], b: "x" };
  assert.deepEqual([sentence(table, entry), weight(table, entry)], ["a [1], b x", "plain"]);
});
