// The content at a position of the tracks, in words: for hovering, clicks, and screen readers. Pure.

import { clock, controllerTerm, duration, plural } from "../format.js";
import { rowAt } from "./layout.js";
import { timeAt, xOf } from "./scale.js";
import { firstEnding, spanAt } from "./spans.js";

/**
 * @typedef {import("./draw.js").Window} Window
 * @typedef {import("./layout.js").Row} Row
 * @typedef {import("./spans.js").Spans} Spans
 * @typedef {{text: string, seq: number | null}} Description  `seq` is the event at the position.
 */

const NEAR_PX = 6;

/** @param {Window} window @param {number} x @param {number} y @returns {Description | null} */
export function describeAt(window, x, y) {
  if (x < window.gutter) return null;
  const { layout, scrolled } = window;
  const row = y < layout.pinned_height ? rowAt(layout.pinned, y) : rowAt(layout.rows, y - layout.pinned_height + scrolled);
  const at_us = timeAt(window, x);
  if (row === null || row.kind === "rule") return { text: clock(at_us), seq: null };
  if (row.kind === "marks") return mark(window, row, x);
  if (row.kind === "rate") return { text: `${clock(at_us)}: ${rateAt(window.spans, row.lane, at_us)}`, seq: null };
  const lost = (window.spans.lost.get(row.under) ?? []).find((each) => each.broker === row.id && Math.abs(xOf(window, each.at_us) - x) < NEAR_PX);
  if (lost?.committed === 0) return { text: `${clock(lost.at_us)}: ${plural(lost.count, "record")} truncated on broker ${row.id}, none known to be committed, event ${lost.seq}`, seq: lost.seq };
  if (lost) return { text: `${clock(lost.at_us)}: broker ${row.id} lost at least ${plural(lost.fresh, "committed record")} that no other replica had lost before, event ${lost.seq}`, seq: lost.seq };
  return span(window, row, x, at_us);
}

/** The label of a row, complete without the rows above it. @param {Row} row */
function name({ kind, label, under }) {
  if (kind === "belief") return `Controller ${label}`;
  return under && kind === "replica" ? `${under} ${label}` : label;
}

/** @param {Window} window @param {Row} row @param {number} x @param {number} at_us @returns {Description | null} */
function span(window, row, x, at_us) {
  const spans = window.spans.lanes.get(row.lane) ?? [];
  // A span narrower than a pixel is also hit next to it.
  const found = spanAt(spans, at_us) ?? spans[firstEnding(spans, at_us)] ?? null;
  if (found === null || xOf(window, found.from_us) > x + NEAR_PX) return { text: `${name(row)}, ${clock(at_us)}`, seq: null };
  const to_us = found.to_us ?? window.now_us;
  const near = Math.abs(xOf(window, found.from_us) - x) < NEAR_PX;
  const open = found.to_us === null ? "so far " : "";
  return {
    text: `${name(row)}: ${words(row, found)}. From ${clock(found.from_us)}, ${open}${duration((to_us - found.from_us) / 1000)}, event ${found.seq}`,
    seq: near ? found.seq : null,
  };
}

/** @param {Row} row @param {import("./spans.js").Span} found */
function words(row, found) {
  if (row.kind === "controller" && found.state === "dead") return `${controllerTerm(found.id, found.epoch)}, ${found.text}`;
  const process = row.kind === "replica" && found.process !== "running" ? `, its broker is ${found.process}` : "";
  return `${found.text}${process}`;
}

/** @param {Window} window @param {Row} row @param {number} x @returns {Description | null} */
function mark(window, row, x) {
  const near = window.spans.marks.filter((each) => each.row === row.lane && Math.abs(xOf(window, each.at_us) - x) < NEAR_PX);
  if (!near.length) return null;
  const shown = near.slice(0, 4).map((each) => `${clock(each.at_us)} ${each.text}, event ${each.seq}`);
  return { text: [...shown, ...(near.length > 4 ? [`and ${near.length - 4} more`] : [])].join("; "), seq: near[0].seq };
}

/** @param {Spans} spans @param {string} id @param {number} at_us */
function rateAt(spans, id, at_us) {
  const points = spans.rates.get(id)?.points ?? [];
  const next = points.findIndex((point) => point.at_us >= at_us);
  if (next < 1) return "no data";
  const [a, b] = [points[next - 1], points[next]];
  const s = Math.max(0.05, (b.at_us - a.at_us) / 1e6);
  const failed = b.failed - a.failed;
  const rate = `${Math.round((b.done - a.done) / s)}/s`;
  const failures = failed ? `, ${failed} failed` : "";
  return b.broken > a.broken ? `unknown because journal lines are missing; ${rate} on average from ${clock(a.at_us)} to ${clock(b.at_us)}${failures}` : `${rate}${failures}`;
}
