// Draws the tracks on a canvas: `draw(ctx, window)`. Stateless; spans narrower than a pixel are merged.

import { drawMarks, drawRate, drawSpans, drawTrouble } from "./draw_rows.js";
import { tickWord, ticks, xOf } from "./scale.js";

/**
 * @typedef {import("./layout.js").Layout} Layout
 * @typedef {import("./layout.js").Row} Row
 * @typedef {import("./spans.js").Spans} Spans
 * @typedef {import("./palette.js").Palette} Palette
 * @typedef {{from_us: number, to_us: number, now_us: number, first_us: number, width: number, height: number, gutter: number, scrolled: number,
 *   layout: Layout, spans: Spans, palette: Palette, offsets?: Record<string, import("../fold.js").PartitionView> | null, word?: (at_us: number, step_us: number) => string}} Window  The visible range: pixels, and
 *   microseconds of the run's clock; `offsets` are to be written at their replicas; `first_us` and `now_us` limit the known time.
 */

/** The height of the axis, before the text is scaled. */
export const AXIS = 24;

/** @param {CanvasRenderingContext2D} ctx @param {Window} of */
export function draw(ctx, of) {
  const { width, height, palette: { colors }, layout: { pinned, pinned_height, rows }, scrolled } = of;
  ctx.clearRect(0, 0, width, height);
  ctx.fillStyle = colors.panel;
  ctx.fillRect(0, 0, width, height);
  grid(ctx, of);
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, pinned_height, width, height - pinned_height);
  ctx.clip();
  ctx.translate(0, pinned_height - scrolled);
  const [top, bottom] = [scrolled, scrolled + height - pinned_height];
  for (const row of rows) if (row.top < bottom && row.top + row.extent > top) drawRow(ctx, of, row);
  ctx.restore();
  if (scrolled > 0) {
    ctx.fillStyle = colors.panel;
    ctx.fillRect(0, 0, width, pinned_height);
    grid(ctx, { ...of, height: pinned_height });
    ctx.fillStyle = colors["edge-strong"];
    ctx.fillRect(0, pinned_height - 1, width, 1);
  }
  for (const row of pinned) drawRow(ctx, of, row);
  axis(ctx, of);
}

/** @param {CanvasRenderingContext2D} ctx @param {Window} of @param {Row} row */
function drawRow(ctx, of, row) {
  if (row.kind === "rule") {
    ctx.fillStyle = of.palette.colors.edge;
    ctx.fillRect(0, row.top + Math.floor(row.height / 2), of.width, 1);
    return;
  }
  label(ctx, of, row);
  ctx.save();
  ctx.beginPath();
  // A line goes down from each action through all rows.
  ctx.rect(of.gutter, row.top - 1, of.width - of.gutter, row.lane === "done" ? of.height : row.extent + 2);
  ctx.clip();
  if (row.kind === "marks") drawMarks(ctx, of, row);
  else if (row.kind === "rate") drawRate(ctx, of, row);
  else if (row.kind === "partition") drawTrouble(ctx, of, row);
  else drawSpans(ctx, of, row);
  ctx.restore();
}

/** @param {CanvasRenderingContext2D} ctx @param {Window} of @param {Row} row */
function label(ctx, { gutter, palette }, row) {
  const font = `${row.strong ? "600 " : ""}${palette.size}px ${palette.font}`;
  const narrow = gutter < 120;
  const indent = row.strong ? 12 : narrow ? 12 : 24;
  const text = narrow ? row.label.replace(/^(according to|on) /, "").replace(", ZAB", "") : row.label;
  const fitted = palette.fitted(ctx, font, text, gutter - indent - 6);
  ctx.font = font;
  ctx.fillStyle = palette.colors.ink;
  ctx.textBaseline = "middle";
  ctx.fillText(fitted, indent, row.top + (row.kind === "rate" ? row.height * 0.45 : row.height / 2) + 1);
}

/** @param {CanvasRenderingContext2D} ctx @param {Window} of */
function grid(ctx, of) {
  const { width, height, gutter, palette: { colors, scale } } = of;
  const top = AXIS * scale;
  ctx.fillStyle = colors.edge;
  for (const { at_us } of ticks(of, width - gutter, 92 * of.palette.scale, of.word ?? tickWord)) ctx.fillRect(Math.round(xOf(of, at_us)), top - 4, 1, height);
  // The state before the first event and after the last is unknown, and shown as such.
  ctx.fillStyle = colors.sunk;
  const [begin, end] = [xOf(of, of.first_us), xOf(of, of.now_us)];
  if (begin > gutter) ctx.fillRect(gutter, top, Math.min(begin, width) - gutter, height);
  if (end < width) ctx.fillRect(Math.max(end, gutter), top, width, height);
}

/** @param {CanvasRenderingContext2D} ctx @param {Window} of */
function axis(ctx, of) {
  const { width, gutter, palette } = of;
  const font = `${palette.size - 1}px ${palette.font}`;
  ctx.font = font;
  ctx.fillStyle = palette.colors.quiet;
  ctx.textBaseline = "middle";
  for (const { at_us, text } of ticks(of, width - gutter, 92 * of.palette.scale, of.word ?? tickWord)) {
    const x = xOf(of, at_us);
    if (x + palette.width(ctx, font, text) + 4 < width) ctx.fillText(text, x + 4, (AXIS * palette.scale) / 2);
  }
}
