// A journal event as one line for people: a weight (its importance) and a sentence. The sentences are in a table,
// journal/sentences.json, which scenario stories use too. journal/sentences.py does the same and defines the templates.
// tests/golden/sentences.jsonl has the expected sentences of both.

import { hex, plural, words } from "./format.js";

/**
 * @typedef {import("./fold.js").Entry} Entry
 * @typedef {"loss" | "election" | "trouble" | "plain"} Weight
 * @typedef {{sentence: string, weight?: [Weight, string][], spoken?: [string, string][], progress?: boolean,
 *   story?: string}} Wording
 * @typedef {Record<string, Wording>} Table  By the type of the event.
 */

const ENVELOPE = new Set(["seq", "schema", "node", "node_seq", "wall_us", "mono_us", "type"]);
const CHOICE = /\[([^[\]?]+)\?([^[\]|]*)(?:\|([^[\]]*))?\]/g;
const FIELD = /\{(\w+)(?::(\w+)(?: (\w+))?)?\}/g;
const COMPARISON = /^(!?)(\w+)(?:(!=|=|<|>)(.*))?$/;

/** @type {Record<string, (value: any, noun: string) => string>} */
const FORMS = {
  plain: (value) => String(value),
  hex: (value) => hex(value),
  words: (value) => words(value),
  list: (value) => value.join(", "),
  pairs: (value) => Object.entries(value).map(([key, inner]) => `${key}=${inner}`).join(", "),
  offsets: (rows) => rows.map((/** @type {any[]} */ [topic, number, high, end]) => `${topic}-${number} high watermark ${high}, log end offset ${end}`).join("; "),
  standings: (rows) => rows.map(standing).join("; "),
  verdicts: (rows) => rows.map((/** @type {[number, string]} */ [replica, word]) => `${replica} ${words(word)}`).join(", "),
  plural: (value, noun) => plural(value, noun),
  size: (value, noun) => plural(Object.keys(value).length, noun),
};

/** A duration to the hundredth of a second. @param {number} ms */
function duration(ms) {
  return ms < 1000 ? `${ms} ms` : `${(Math.floor((ms + 5) / 10) / 100).toLocaleString("en-US")} s`;
}

/** @param {Record<string, number>} row */
function standing(row) {
  const ago = row.caught_up_ms_ago ?? -1;
  const caughtUp = ago < 0 ? "not caught up in this leader epoch" : `last caught up ${duration(ago)} ago`;
  const ends = `log end offset ${row.log_end_offset}, leader's ${row.leader_end_offset}`;
  return `broker ${row.replica}: ${ends}, ${caughtUp} (limit ${duration(row.lag_time_max_ms ?? 0)})`;
}

/** The table's entry for an event's type. @param {Table} table @param {Entry} entry @returns {Wording | undefined} */
const wording = (table, entry) => (Object.hasOwn(table, entry.type) ? table[entry.type] : undefined);

/** The sentence of an event, or its fields if the table lacks its type. @param {Table} table @param {Entry} entry */
export function sentence(table, entry) {
  const found = wording(table, entry);
  if (found !== undefined) return render(found.sentence, fields(entry));
  return Object.entries(entry).filter(([name]) => !ENVELOPE.has(name))
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

/** The importance of an event: an election, trouble, loss, or plain. @param {Table} table @param {Entry} entry @returns {Weight} */
export function weight(table, entry) {
  const weighed = fields(entry);
  return wording(table, entry)?.weight?.find(([, condition]) => holds(condition, weighed))?.[0] ?? "plain";
}

/** Whether a scenario's story includes an event. @param {Table} table @param {Entry} entry */
export function inStory(table, entry) {
  const condition = wording(table, entry)?.story;
  return condition !== undefined && holds(condition, fields(entry));
}

/** The announcement of an event for screen readers, or an empty text. @param {Table} table @param {Entry} entry */
export function spoken(table, entry) {
  const values = fields(entry);
  const found = wording(table, entry)?.spoken?.find(([, condition]) => holds(condition, values));
  return found === undefined ? "" : render(found[0], values);
}

/** The types of events that only report progress. @param {Table} table */
export const progressTypes = (table) => Object.keys(table).filter((type) => table[type].progress === true);

/** Whether an event only reports progress. @param {Table} table @param {Entry} entry */
export const isProgress = (table, entry) => wording(table, entry)?.progress === true;

/** @param {Entry} entry @returns {Record<string, any>} */
const fields = (entry) => ({ ...entry, own: entry.node === `broker-${entry.broker_id}` });

/** @param {string} template @param {Record<string, any>} of */
function render(template, of) {
  return template
    .replace(CHOICE, (_, condition, text, otherwise) => (holds(condition, of) ? text : otherwise ?? ""))
    .replace(FIELD, (_, name, form, noun) => FORMS[form ?? "plain"]?.(of[name], noun) ?? "");
}

/** @param {string} condition @param {Record<string, any>} of */
const holds = (condition, of) => condition.split("&").every((comparison) => !comparison || compares(comparison, of));

/** @param {string} comparison @param {Record<string, any>} of */
function compares(comparison, of) {
  const [, negated, name = "", sign, operand = ""] = comparison.match(COMPARISON) ?? [];
  const value = of[name];
  if (sign === "=") return String(value) === operand;
  if (sign === "!=") return String(value) !== operand;
  if (sign === "<") return Number(value) < Number(operand);
  if (sign === ">") return Number(value) > Number(operand);
  const something = typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value);
  return something !== Boolean(negated);
}
