// Two histories on one axis: the time since each began. Equal events are in one row. Pure.

import { inStory, sentence, weight } from "../sentences.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("../sentences.js").Table} Table
 * @typedef {{seq: number, node: string, told: string, weight: string}} Side
 * @typedef {{at_us: number, a: Side | null, b: Side | null}} Row
 */

/**
 * The rows of both, ordered by time.
 * @param {Table} table @param {Entry[]} one @param {Entry[]} other @param {{a: number, b: number}} begins_us
 */
export function align(table, one, other, begins_us) {
  const rows = /** @type {Row[]} */ ([]);
  const left = one.filter((entry) => inStory(table, entry));
  const right = other.filter((entry) => inStory(table, entry));
  let [i, j] = [0, 0];
  while (i < left.length || j < right.length) {
    const a = i < left.length ? side(table, left[i]) : null;
    const b = j < right.length ? side(table, right[j]) : null;
    const [at_a, at_b] = [a ? left[i].wall_us - begins_us.a : Infinity, b ? right[j].wall_us - begins_us.b : Infinity];
    if (a && b && a.node === b.node && a.told === b.told) {
      rows.push({ at_us: Math.min(at_a, at_b), a, b });
      [i, j] = [i + 1, j + 1];
    } else if (a && at_a <= at_b && !comesSoon(table, left[i], right, j)) {
      rows.push({ at_us: at_a, a, b: null });
      i += 1;
    } else if (b && !comesSoon(table, right[j], left, i)) {
      rows.push({ at_us: at_b, a: null, b });
      j += 1;
    } else if (a) {
      rows.push({ at_us: at_a, a, b: null });
      i += 1;
    }
  }
  return rows;
}

const SOON = 6;

/**
 * Whether the other history has the same event a little later: then it waits for that row.
 * @param {Table} table
 * @param {Entry} entry
 * @param {Entry[]} other
 * @param {number} from
 */
function comesSoon(table, entry, other, from) {
  const text = sentence(table, entry);
  return other.slice(from, from + SOON).some((each) => each.node === entry.node && each.type === entry.type && sentence(table, each) === text);
}

/** @param {Table} table @param {Entry} entry @returns {Side} */
const side = (table, entry) => ({ seq: entry.seq, node: entry.node, told: sentence(table, entry), weight: weight(table, entry) });
