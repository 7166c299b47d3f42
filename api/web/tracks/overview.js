// The overview: everything that is stored of a run as one strip, and the range that the tracks show.

import { xOf } from "./scale.js";

/**
 * @typedef {import("./scale.js").Stretch} Stretch
 * @typedef {{all: Stretch, seen: Stretch, width: number, height: number, gutter: number, history: import("./history.js").History,
 *   palette: import("./palette.js").Palette, at_us: number | null}} Overview
 */

const STRIP = 4;

/** @param {CanvasRenderingContext2D} ctx @param {Overview} of */
export function drawOverview(ctx, of) {
  const { all, seen, width, height, gutter, history: { spans, events, places, whole }, palette } = of;
  const { colors } = palette;
  if (spans === null) return;
  const scale = { ...all, width, gutter };
  const x = (/** @type {number} */ at_us) => Math.min(width, Math.max(gutter, xOf(scale, at_us)));
  const floor = height - STRIP - 2;
  ctx.clearRect(0, 0, width, height);
  ctx.fillStyle = colors.sunk;
  ctx.fillRect(gutter, 0, width - gutter, height);
  if (!whole) {
    ctx.fillStyle = palette.hatched(ctx, colors.edge, colors.sunk, 1);
    ctx.fillRect(gutter, 0, x(spans.first_us) - gutter, height);
  }
  // The number of events, without the progress counters once a second.
  const bins = new Float64Array(Math.max(1, Math.ceil((width - gutter) / 2)));
  const bins_us = bins.length / (all.to_us - all.from_us);
  for (let i = 0; i < places.length; i += 1) {
    if (!events[i].type.endsWith("_progressed")) bins[Math.max(0, Math.min(bins.length - 1, Math.floor((places[i].at_us - all.from_us) * bins_us)))] += 1;
  }
  ctx.fillStyle = colors.quiet;
  bins.forEach((n, i) => {
    const tall = Math.min(floor - 3, 3 + Math.log2(1 + n) * 4.5);
    if (n) ctx.fillRect(gutter + i * 2, floor - tall, 1.4, tall);
  });
  for (const span of spans.lanes.get("controller") ?? []) {
    const [begin, end] = [x(span.from_us), x(span.to_us ?? all.to_us)];
    ctx.fillStyle = span.state === "none" ? colors.bad : palette.broker(span.id);
    ctx.globalAlpha = span.state === "dead" ? 0.4 : 1;
    ctx.fillRect(begin, height - STRIP, Math.max(span.state === "none" ? 2 : 0.5, end - begin), STRIP);
  }
  ctx.globalAlpha = 1;
  for (const mark of spans.marks) {
    if (mark.tone !== "bad" || mark.row !== "came") continue;
    ctx.fillStyle = colors.bad;
    ctx.fillRect(x(mark.at_us) - 1, 2, 3, 7);
  }
  brush(ctx, x(seen.from_us), x(seen.to_us), height, colors);
  if (of.at_us !== null) {
    ctx.fillStyle = colors.ink;
    ctx.fillRect(x(of.at_us) - 1, 0, 2, height);
  }
  ctx.font = `${palette.size - 1}px ${palette.font}`;
  ctx.textBaseline = "middle";
  ctx.fillStyle = colors.quiet;
  ctx.fillText(gutter < 120 ? "recording" : "Whole recording", 12, height / 2);
}

/** @param {CanvasRenderingContext2D} ctx @param {number} begin @param {number} end @param {number} height @param {Record<string, string>} colors */
function brush(ctx, begin, end, height, colors) {
  const wide = Math.max(6, end - begin);
  const left = Math.min(begin, end - wide);
  ctx.fillStyle = colors.accent;
  ctx.globalAlpha = 0.12;
  ctx.fillRect(left, 0, wide, height);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(left + 0.75, 0.75, wide - 1.5, height - 1.5);
  ctx.fillRect(left - 1, height / 2 - 7, 4, 14);
  ctx.fillRect(left + wide - 3, height / 2 - 7, 4, 14);
}
