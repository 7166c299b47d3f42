// Draws a scene on a canvas.

import { span } from "./times.js";
import { isLost } from "./words.js";

/**
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {import("./scene.js").Arrow} Arrow
 * @typedef {import("./words.js").Protocol} Protocol
 * @typedef {Record<Protocol | "ink" | "quiet" | "edge" | "panel" | "bad" | "accent" | "sunk", string>} Palette
 */

const HEAD_PX = 7;
const LOOP_PX = 13;
export const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";
export const BOLD = FONT.replace("11px", "600 11px");
const CROWD = 1_500;

/** The current colours of the page: light, dark or forced. @param {Element} at @returns {Palette} */
export function palette(at) {
  const style = getComputedStyle(at);
  const of = (/** @type {string} */ name) => style.getPropertyValue(name).trim() || "CanvasText";
  return {
    zab: of("--zab"), client: of("--client"), kafka: of("--kafka"), beat: of("--beat"), ink: of("--ink"), quiet: of("--quiet"),
    edge: of("--edge-strong"), panel: of("--panel"), bad: of("--bad"), accent: of("--accent"), sunk: of("--sunk"),
  };
}

/**
 * @param {HTMLCanvasElement} canvas @param {Scene} of @param {Palette} colours
 * @param {{at_us: number | null, marked: number | null, when: (us: number) => string}} how the moment that is shown, and the
 *   message under the pointer or selected
 */
export function draw(canvas, of, colours, { at_us, marked, when }) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [Math.round(of.width * ratio), Math.round(of.height * ratio)];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
    canvas.style.height = `${of.height}px`;
  }
  const ctx = canvas.getContext("2d");
  if (ctx === null) return;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, of.width, of.height);
  time(ctx, of, colours, when);
  phases(ctx, of, colours);
  lanes(ctx, of, colours);
  ctx.save();
  ctx.beginPath();
  ctx.rect(of.gutter - 4, of.top - 16, of.width - of.gutter, of.height);
  ctx.clip();
  const crowded = of.arrows.length > CROWD;
  for (const group of alike(of.arrows, marked)) arrows(ctx, group, colours, crowded ? 1 : 1.4, !crowded);
  const chosen = of.arrows.find((each) => each.message.id === marked);
  if (chosen) arrows(ctx, [{ ...chosen, faint: false }], colours, 3, true);
  if (at_us !== null) cursor(ctx, of, colours, at_us);
  points(ctx, of, colours);
  ctx.restore();
  names(ctx, of, colours);
}

/** @param {CanvasRenderingContext2D} ctx @param {Scene} of @param {Palette} colours @param {(us: number) => string} when */
function time(ctx, of, colours, when) {
  ctx.font = FONT;
  ctx.lineWidth = 1;
  ctx.textAlign = "center";
  for (const { x, us } of of.axis.ticks) {
    ctx.strokeStyle = colours.edge;
    ctx.globalAlpha = 0.45;
    line(ctx, x, of.top - 10, x, of.height - 8);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colours.quiet;
    ctx.fillText(when(us), x, of.top - 16);
  }
  for (const { x, us } of of.axis.folds) {
    ctx.strokeStyle = colours.quiet;
    ctx.setLineDash([2, 3]);
    line(ctx, x - 4, of.top - 10, x - 4, of.height - 8);
    line(ctx, x + 4, of.top - 10, x + 4, of.height - 8);
    ctx.setLineDash([]);
    ctx.fillStyle = colours.quiet;
    ctx.fillText(span(us), x, of.height - 6);
  }
  ctx.textAlign = "left";
}

/** @param {CanvasRenderingContext2D} ctx @param {Scene} of @param {Palette} colours */
function phases(ctx, of, colours) {
  of.phases.forEach(({ name, from_us, to_us, x1, x2 }, place) => {
    ctx.fillStyle = place % 2 ? colours.sunk : colours.zab;
    ctx.globalAlpha = place % 2 ? 1 : 0.16;
    ctx.fillRect(x1, 4, Math.max(1, x2 - x1 - 1), 24);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = place % 2 ? colours.edge : colours.zab;
    ctx.strokeRect(x1 + 0.5, 4.5, Math.max(1, x2 - x1 - 2), 23);
    ctx.fillStyle = colours.ink;
    const took = span(to_us - from_us);
    const [whole, brief] = [`${name} ${took}`, took];
    ctx.font = BOLD;
    const text = [whole, brief].find((each) => ctx.measureText(each).width < x2 - x1 - 10);
    if (text) ctx.fillText(text, x1 + 6, 20);
  });
}

/** @param {CanvasRenderingContext2D} ctx @param {Scene} of @param {Palette} colours */
function lanes(ctx, of, colours) {
  for (const { name, role, y } of of.lanes) {
    ctx.strokeStyle = colours.edge;
    ctx.lineWidth = 1.5;
    line(ctx, of.gutter - 4, y, of.width - 8, y);
    ctx.fillStyle = colours.ink;
    ctx.font = BOLD;
    ctx.fillText(fitting(ctx, name, of.gutter - 16), 8, y + 2);
    ctx.fillStyle = role === "down" || role === "paused" ? colours.bad : colours.quiet;
    ctx.font = FONT;
    ctx.fillText(fitting(ctx, role, of.gutter - 16), 8, y + 15);
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {string} text @param {number} width */
function fitting(ctx, text, width) {
  let end = text.length;
  while (end > 1 && ctx.measureText(text.slice(0, end)).width > width) end -= 1;
  return end === text.length ? text : `${text.slice(0, Math.max(1, end - 1))}…`;
}

/** Arrows that are drawn together: with the same colour, strength and stroke. @param {Arrow[]} all @param {number | null} but @returns {Iterable<Arrow[]>} */
function alike(all, but) {
  /** @type {Map<string, Arrow[]>} */
  const groups = new Map();
  for (const each of all) {
    if (each.message.id === but) continue;
    const key = `${each.protocol} ${each.faint} ${strokeOf(each)}`;
    const group = groups.get(key);
    if (group) group.push(each);
    else groups.set(key, [each]);
  }
  return groups.values();
}

/** A message with contradictory times, because of different clocks, does not look like a normal one. @param {Arrow} each */
function strokeOf({ shape, message }) {
  if (shape === "stub") return isLost(message) ? "lost" : "unknown";
  return shape === "arrow" && message.lost ? "doubtful" : "plain";
}

/** @type {Record<ReturnType<typeof strokeOf>, number[]>} */
const DASHES = { lost: [4, 3], unknown: [4, 3], doubtful: [2, 2], plain: [] };

/**
 * Draw equal arrows. Each is a path of its own: in a single path the canvas would have to compute their overlaps.
 * @param {CanvasRenderingContext2D} ctx @param {Arrow[]} group @param {Palette} colours @param {number} width @param {boolean} headed in a crowd heads are blots
 */
function arrows(ctx, group, colours, width, headed) {
  const stroke = strokeOf(group[0]);
  ctx.globalAlpha = width > 2 ? 1 : group[0].faint ? 0.45 : 0.9;
  ctx.fillStyle = colours[group[0].protocol];
  ctx.strokeStyle = stroke === "lost" ? colours.bad : colours[group[0].protocol];
  ctx.lineWidth = width;
  ctx.setLineDash(DASHES[stroke]);
  for (const { shape, x1, y1, x2, y2 } of group) {
    if (shape !== "loop") {
      line(ctx, x1, y1, x2, y2);
      continue;
    }
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.bezierCurveTo(x1, y1 - LOOP_PX * 1.4, Math.max(x2, x1 + 8), y1 - LOOP_PX * 1.4, Math.max(x2, x1 + 8), y1);
    ctx.stroke();
  }
  ctx.setLineDash([]);
  for (const each of group) {
    if (each.shape === "arrow" && headed) head(ctx, each);
    else if (stroke === "lost") crossed(ctx, each);
  }
  ctx.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {Arrow} each */
function head(ctx, { x1, y1, x2, y2 }) {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  ctx.beginPath();
  ctx.moveTo(x2, y2);
  ctx.lineTo(x2 - HEAD_PX * Math.cos(angle - 0.4), y2 - HEAD_PX * Math.sin(angle - 0.4));
  ctx.lineTo(x2 - HEAD_PX * Math.cos(angle + 0.4), y2 - HEAD_PX * Math.sin(angle + 0.4));
  ctx.fill();
}

/** @param {CanvasRenderingContext2D} ctx @param {Arrow} each */
function crossed(ctx, { x2, y2 }) {
  line(ctx, x2 - 4, y2 - 4, x2 + 4, y2 + 4);
  line(ctx, x2 - 4, y2 + 4, x2 + 4, y2 - 4);
}

/** @param {CanvasRenderingContext2D} ctx @param {Scene} of @param {Palette} colours @param {number} at_us */
function cursor(ctx, of, colours, at_us) {
  const x = of.axis.x(at_us);
  ctx.strokeStyle = colours.accent;
  ctx.lineWidth = 1.5;
  ctx.setLineDash([5, 3]);
  line(ctx, x, of.top - 12, x, of.height - 8);
  ctx.setLineDash([]);
}

/** @param {CanvasRenderingContext2D} ctx @param {Scene} of @param {Palette} colours */
function points(ctx, of, colours) {
  for (const { x, y, weight } of of.points) {
    ctx.beginPath();
    ctx.arc(x, y, 4, 0, 2 * Math.PI);
    ctx.fillStyle = colours.panel;
    ctx.fill();
    ctx.lineWidth = weight === "plain" ? 1.5 : 2.4;
    ctx.strokeStyle = weight === "loss" ? colours.bad : colours.ink;
    ctx.stroke();
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {Scene} of @param {Palette} colours */
function names(ctx, of, colours) {
  // An outline around each letter would cost as much as everything else in the drawing.
  ctx.fillStyle = colours.panel;
  ctx.globalAlpha = 0.8;
  for (const { x, y, width } of of.names) ctx.fillRect(x - 1, y - 9, width + 2, 12);
  ctx.globalAlpha = 1;
  for (const bold of [false, true]) {
    ctx.font = bold ? BOLD : FONT;
    for (const name of of.names) {
      if (name.bold !== bold) continue;
      ctx.fillStyle = name.protocol === null ? colours.ink : colours[name.protocol];
      ctx.fillText(name.text, name.x, name.y);
    }
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 */
function line(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}
