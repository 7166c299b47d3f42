// Draws one row of the tracks: spans of a lane, marks, a rate. Equal looks are drawn together, since a change of colour
// or font costs more than the drawing.

import { plural } from "../format.js";
import { lookOf } from "./looks.js";
import { xOf } from "./scale.js";
import { firstEnding } from "./spans.js";

/**
 * @typedef {import("./draw.js").Window} Window
 * @typedef {import("./layout.js").Row} Row
 * @typedef {import("./looks.js").Look} Look
 * @typedef {import("./spans.js").Span} Span
 * @typedef {import("./spans.js").Mark} Mark
 * @typedef {CanvasRenderingContext2D} Ctx
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{marks: Mark[], x: number}} Seen  Marks on the same pixels.
 * @typedef {Map<Look, number[]>} Bars  The start and width of each bar of a look.
 * @typedef {{look: Look, span: Span, x: number, width: number, begins: boolean}} Labelled  A span with enough space for a word.
 */

/** Narrower spans get no text and no cross. */
const TOLD_PX = 9;
const ROOM_MIN = 8;
/** Glyphs nearer to each other than this share a label. */
const SHARED_PX = 20;
/** A label lists up to this many marks. */
const LABELLED_MAX = 4;
/** A shorter line has no space for dashes, and a narrower bar none for a pattern and an outline. */
const DASHED_PX = 8;
const PATTERN_PX = 6;
const LINE_PX = 2;
/** The share of lines in a pattern. */
const NARROW_ALPHA = 0.6;
/** Counters without a report for this long have not changed. */
const STILL_US = 2.5e6;

/**
 * The visible spans of a lane, in whole pixels; of those on the same pixel the one with the highest weight.
 * @param {Ctx} ctx @param {Window} of @param {Row} row @returns {{bars: Bars, thin: Bars, told: Labelled[]}}
 */
function seen(ctx, of, row) {
  const { from_us, to_us, now_us, gutter, width, palette } = of;
  const spans = of.spans.lanes.get(row.lane) ?? [];
  const scale = (width - gutter) / (to_us - from_us);
  const [left, right] = [gutter - 2, width + 2];
  const found = { bars: new Map(), thin: new Map(), told: /** @type {Labelled[]} */ ([]) };
  /** @type {Look | null} */
  let thin = null;
  let thin_x = -Infinity;
  for (let i = firstEnding(spans, from_us); i < spans.length; i += 1) {
    const span = spans[i];
    if (span.from_us >= to_us) break;
    const x = Math.max(left, Math.round(gutter + (span.from_us - from_us) * scale));
    const end = Math.min(right, Math.round(gutter + ((span.to_us ?? now_us) - from_us) * scale));
    const look = lookOf(ctx, palette, row.kind, span);
    if (end - x < 2) {
      if (thin !== null && x === thin_x && look.weight <= thin.weight) continue;
      if (thin !== null && x !== thin_x) add(found.thin, thin, thin_x, 1);
      [thin, thin_x] = [look, x];
      continue;
    }
    add(found.bars, look, x, end - x);
    if (end - x < TOLD_PX) continue;
    // Whether its process changed to this state at its start, as far as is visible.
    found.told.push({ look, span, x, width: end - x, begins: span.from_us < from_us || spans[i - 1]?.process !== span.process });
  }
  if (thin !== null) add(found.thin, thin, thin_x, 1);
  return found;
}

/** @param {Bars} bars @param {Look} look @param {number} x @param {number} width */
function add(bars, look, x, width) {
  const of = bars.get(look);
  if (of === undefined) bars.set(look, [x, width]);
  else of.push(x, width);
}

/** @param {Ctx} ctx @param {Window} of @param {Row} row */
export function drawSpans(ctx, of, row) {
  const { bars, thin, told } = seen(ctx, of, row);
  // Narrow spans are drawn over their wider neighbours.
  for (const all of [bars, thin]) {
    for (const [look, places] of all) {
      if (look.dashes === null) drawBars(ctx, look, places, row);
      else drawLines(ctx, of, look, look.dashes, places, row);
    }
  }
  for (const each of told) {
    const crossed = each.begins && each.look.cross !== "";
    if (crossed) cross(ctx, of, each, row);
    write(ctx, of, each, row, (crossed ? 14 : 0) + (each.look.dashes?.length ? 4 : 0));
  }
  if (row.kind !== "replica") return;
  losses(ctx, of, row);
  writeOffsets(ctx, of, row);
}

/** A replica's log end offset and high watermark. @param {Ctx} ctx @param {Window} of @param {Row} row */
function writeOffsets(ctx, { palette, width, offsets }, row) {
  const view = offsets?.[row.under];
  const end = view?.log_end_offsets[row.id];
  if (view === undefined || end === undefined) return;
  const font = `${palette.size - 1}px ${palette.font}`;
  const stable = view.held?.broker_id === row.id ? `, LSO ${view.held.offset}` : "";
  const text = `end ${end}, HW ${view.high_watermarks[row.id] ?? "unknown"}${stable}`;
  const wide = palette.width(ctx, font, text);
  ground(ctx, { x: width - wide - 12, y: row.top + 1, width: wide + 8, height: row.height - 2 }, palette.colors.panel);
  ctx.font = font;
  ctx.textBaseline = "middle";
  ctx.fillStyle = palette.colors.ink;
  ctx.fillText(text, width - wide - 8, row.top + row.height / 2 + 1);
}

/** @param {Ctx} ctx @param {Look} look @param {number[]} places @param {Row} row */
function drawBars(ctx, look, places, row) {
  const height = Math.round(look.thick(row.height));
  const y = Math.round(row.top + (row.height - height) / 2);
  const narrow_px = look.narrow === "" ? 0 : PATTERN_PX;
  ctx.globalAlpha = look.alpha;
  ctx.fillStyle = look.fill;
  if (narrow_px === 0) {
    for (let i = 0; i < places.length; i += 2) ctx.fillRect(places[i], y, places[i + 1], height);
  } else {
    // The cost of a pattern is per fill, so fill all bars at once; single colours are faster one by one.
    ctx.beginPath();
    for (let i = 0; i < places.length; i += 2) if (places[i + 1] >= narrow_px) ctx.rect(places[i], y, places[i + 1], height);
    ctx.fill();
  }
  if (narrow_px > 0) {
    ctx.globalAlpha = NARROW_ALPHA;
    ctx.fillStyle = look.narrow;
    for (let i = 0; i < places.length; i += 2) if (places[i + 1] < narrow_px) ctx.fillRect(places[i], y, places[i + 1], height);
  }
  ctx.globalAlpha = 1;
  if (look.outline === "") return;
  ctx.strokeStyle = look.outline;
  ctx.lineWidth = 1;
  for (let i = 0; i < places.length; i += 2) {
    if (places[i + 1] >= PATTERN_PX) ctx.strokeRect(places[i] + 0.5, y + 0.5, places[i + 1] - 1, height - 1);
  }
}

/** @param {Ctx} ctx @param {Window} of @param {Look} look @param {number[]} dashes @param {number[]} places @param {Row} row */
function drawLines(ctx, { palette }, look, dashes, places, row) {
  const y = Math.round(row.top + (row.height - LINE_PX) / 2);
  const [dash, gap] = dashes;
  const dashed_px = dash === undefined ? Infinity : DASHED_PX;
  ctx.fillStyle = look.fill;
  for (let i = 0; i < places.length; i += 2) if (places[i + 1] < dashed_px) ctx.fillRect(places[i], y, places[i + 1], LINE_PX);
  if (dash === undefined) return;
  // As with bars: fill the pattern of all lines at once. A dashed path takes many times as long.
  ctx.fillStyle = palette.dashed(ctx, String(look.fill), dash, gap);
  ctx.beginPath();
  for (let i = 0; i < places.length; i += 2) if (places[i + 1] >= dashed_px) ctx.rect(places[i], y, places[i + 1], LINE_PX);
  ctx.fill();
}

/** A partition without a serving leader, over all of its lanes. @param {Ctx} ctx @param {Window} of @param {Row} row */
export function drawTrouble(ctx, of, row) {
  const { bars, thin, told } = seen(ctx, of, row);
  for (const [look, places] of [...bars, ...thin]) {
    ctx.fillStyle = look.fill;
    ctx.globalAlpha = look.alpha;
    for (let i = 0; i < places.length; i += 2) ctx.fillRect(places[i], row.top, places[i + 1], row.extent);
    ctx.globalAlpha = 1;
    for (let i = 0; i < places.length; i += 2) ctx.fillRect(places[i], row.top + 1, places[i + 1], 2);
  }
  for (const each of told) write(ctx, of, each, { ...row, top: row.top + 2 }, 0);
}

/** @param {Ctx} ctx @param {Window} of @param {Row} row */
function losses(ctx, of, row) {
  const { colors, size, font } = of.palette;
  const heavy = `600 ${size - 1}px ${font}`;
  for (const lost of of.spans.lost.get(row.under) ?? []) {
    if (lost.broker !== row.id || lost.at_us < of.from_us || lost.at_us > of.to_us) continue;
    const [x, y] = [xOf(of, lost.at_us), row.top + row.height / 2];
    if (lost.committed === 0) {
      // A follower that truncates uncommitted records loses nothing that was acknowledged with acks=all.
      truncation(ctx, x, y, colors.quiet);
      continue;
    }
    diamond(ctx, x, y, 5, colors.bad);
    if (lost.fresh === 0) continue;
    const text = `at least ${plural(lost.fresh, "committed record")} lost`;
    const width = of.palette.width(ctx, heavy, text);
    const left = x - width - 10 > of.gutter ? x - width - 10 : x + 9;
    ground(ctx, { x: left - 3, y: row.top + 1, width: width + 6, height: row.height - 2 }, colors.panel);
    ctx.font = heavy;
    ctx.fillStyle = colors.bad;
    ctx.fillText(text, left, y + 1);
  }
}

/** The visible marks of a row, with marks on the same pixels joined. @param {Window} of @param {Row} row @returns {Seen[]} */
export function marksSeen(of, row) {
  const { marks } = of.spans;
  /** @type {Seen[]} */
  const found = [];
  for (let i = firstAt(marks, of.from_us); i < marks.length && marks[i].at_us <= of.to_us; i += 1) {
    if (marks[i].row !== row.lane) continue;
    const x = xOf(of, marks[i].at_us);
    const last = found.at(-1);
    if (last !== undefined && x < last.x + 2) last.marks.push(marks[i]);
    else found.push({ marks: [marks[i]], x });
  }
  return found;
}

/**
 * Glyphs without space for labels between them share one, after the last of them. Otherwise a mark would hide the mark next to it.
 * @param {Seen[]} shown @returns {(Seen & {from: number})[]} `from` is the first glyph; glyphs without a label are left out
 */
export function clusters(shown) {
  /** @type {(Seen & {from: number})[]} */
  const found = [];
  for (const { marks, x } of shown) {
    const labelled = marks.filter((mark) => mark.kind !== "expired" && mark.kind !== "fenced");
    const last = found.at(-1);
    if (last !== undefined && x < last.x + SHARED_PX) Object.assign(last, { x, marks: [...last.marks, ...labelled] });
    else found.push({ marks: labelled, x, from: x });
  }
  // A request is the cause of the fault next to it, and its text adds nothing to the fault's.
  return found.map((each) => {
    const others = each.marks.filter((mark) => mark.kind !== "request");
    return others.length ? { ...each, marks: others } : each;
  });
}

/** The possible texts of a label, longest first: "kill broker 2, kill broker 3", "kill b2, kill b3", "kill b2 +1". @param {string[]} texts */
export function labels(texts) {
  const short = texts.map((text) => text.replace(/(broker|peer) /g, (_, role) => role[0]));
  const more = texts.length > 1 ? ` +${texts.length - 1}` : "";
  const all = [texts.join(", "), short.join(", "), `${short[0]}${more}`, `${texts[0].split(" ")[0]}${more}`];
  return texts.length > LABELLED_MAX ? all.slice(2) : all;
}

/** @param {Ctx} ctx @param {Window} of @param {Row} row */
export function drawMarks(ctx, of, row) {
  const { palette } = of;
  const shown = marksSeen(of, row);
  const [y, below] = [row.top + row.height / 2, row.top + row.height];
  if (row.lane === "done") {
    ctx.fillStyle = palette.dotted(ctx, palette.colors["edge-strong"]);
    for (const { marks, x } of shown) if (marks.some((mark) => mark.kind !== "request")) ctx.fillRect(Math.round(x), below, 1, of.height - below);
  }
  const font = `600 ${palette.size - 1}px ${palette.font}`;
  ctx.textBaseline = "middle";
  ctx.font = font;
  for (const { marks, x } of shown) glyph(ctx, weightiest(marks), x, y, toneColor(palette, weightiest(marks)));
  const labelled = clusters(shown);
  labelled.forEach(({ marks, x }, i) => {
    // A label can extend to the next glyph.
    const room = Math.min(of.width, i + 1 < labelled.length ? labelled[i + 1].from - 5 : of.width) - x - 9;
    if (room < ROOM_MIN || marks.length === 0) return;
    const text = labels(marks.map((mark) => mark.text)).find((each) => palette.width(ctx, font, each) <= room);
    if (text === undefined) return;
    ctx.font = font;
    ctx.fillStyle = toneColor(palette, weightiest(marks));
    ctx.fillText(text, x + 9, y + 1);
  });
}

/** @param {import("./palette.js").Palette} palette @param {Mark} mark */
const toneColor = (palette, { tone }) => (tone === "good" ? palette.colors.ok : palette.colors[tone]);

/** @type {Record<Mark["tone"], number>} */
const TONES = { bad: 2, warn: 1, good: 0 };

/** Of marks on the same pixels, the one with the visible glyph. @param {Mark[]} marks */
const weightiest = (marks) => marks.reduce((a, b) => (TONES[b.tone] > TONES[a.tone] ? b : a));

/** @param {Ctx} ctx @param {Mark} mark @param {number} x @param {number} y @param {string} color */
function glyph(ctx, { kind }, x, y, color) {
  ctx.fillStyle = ctx.strokeStyle = color;
  ctx.lineWidth = 1.6;
  if (kind === "lost" || kind === "violated") return diamond(ctx, x, y, 5.5, color);
  ctx.beginPath();
  if (kind === "expired") {
    ctx.moveTo(x - 4, y - 5);
    ctx.lineTo(x + 4, y - 5);
    ctx.lineTo(x - 4, y + 5);
    ctx.lineTo(x + 4, y + 5);
    ctx.closePath();
    return ctx.stroke();
  }
  if (kind === "fenced") {
    ctx.moveTo(x - 4, y - 4.5);
    ctx.lineTo(x + 4, y - 4.5);
    ctx.lineTo(x + 4, y + 1);
    ctx.lineTo(x, y + 5);
    ctx.lineTo(x - 4, y + 1);
    ctx.closePath();
    return ctx.stroke();
  }
  ctx.arc(x, y, kind === "request" || kind === "topic" ? 2.4 : 3.6, 0, 7);
  return kind === "request" ? ctx.stroke() : ctx.fill();
}

/**
 * The rates of counters, pixel by pixel. Where lines are missing, the rate is the average, and `unknown`.
 * @param {{from_us: number, to_us: number, width: number, gutter: number}} of @param {import("./spans.js").Point[]} points
 * @returns {{at_us: number, since_us: number, rate: number, failed: number, unknown: boolean}[]}
 */
export function ratesSeen(of, points) {
  const pixel_us = (of.to_us - of.from_us) / (of.width - of.gutter);
  const found = [];
  let a = Math.max(0, firstAt(points, of.from_us) - 2);
  for (let b = a + 1; b < points.length && points[a].at_us <= of.to_us; b += 1) {
    const [since, at] = [points[a], points[b]];
    if (at.at_us - since.at_us < pixel_us && b + 1 < points.length) continue;
    let from_us = since.at_us;
    const unknown = at.broken > since.broken;
    if (!unknown && b === a + 1 && at.at_us - from_us > STILL_US) {
      // Counters are reported once a second if they have changed: until then they were constant.
      from_us = at.at_us - 1e6;
      found.push({ at_us: from_us, since_us: since.at_us, rate: 0, failed: 0, unknown: false });
    }
    const s = Math.max(0.05, (at.at_us - from_us) / 1e6);
    found.push({ at_us: at.at_us, since_us: from_us, rate: Math.max(0, at.done - since.done) / s, failed: Math.max(0, at.failed - since.failed) / s, unknown });
    a = b;
  }
  return found;
}

/** Records acknowledged or read per second, and failures. @param {Ctx} ctx @param {Window} of @param {Row} row */
export function drawRate(ctx, of, row) {
  const { colors, size, font } = of.palette;
  const points = of.spans.rates.get(row.lane)?.points ?? [];
  const [floor, height] = [row.top + row.height - 6, row.height - 14];
  const rates = ratesSeen(of, points);
  if (!rates.length) return;
  // Records held back by an outage arrive all at once afterwards; they must not flatten the rest.
  const known = rates.filter(({ unknown }) => !unknown);
  const usual = (known.length ? known : rates).map(({ rate }) => rate).sort((a, b) => a - b)[Math.floor((known.length || rates.length) * 0.9)];
  const top = Math.max(1, usual * 1.6);
  const y = (/** @type {number} */ rate) => floor - Math.min(1, rate / top) * height;
  ctx.fillStyle = colors.bad;
  for (const { at_us, failed } of known) if (failed > 0) ctx.fillRect(xOf(of, at_us) - 1, y(failed), 3, floor - y(failed));
  ctx.fillStyle = colors.edge;
  ctx.fillRect(of.gutter, floor, of.width, 1);
  for (const each of rates) if (each.unknown) drawUnknown(ctx, of, each, row, y(each.rate));
  ctx.strokeStyle = colors.ok;
  ctx.lineWidth = 1.6;
  ctx.beginPath();
  rates.forEach(({ at_us, since_us, rate, unknown }, i) => {
    if (unknown) return;
    if (i === 0 || rates[i - 1].unknown) ctx.moveTo(xOf(of, since_us), y(rate));
    // The counter was constant from the first moment on; it did not fall gradually.
    else if (rate === 0) ctx.lineTo(xOf(of, since_us), y(0));
    ctx.lineTo(xOf(of, at_us), y(rate));
  });
  ctx.stroke();
  ctx.font = `${size - 2}px ${font}`;
  ctx.fillStyle = colors.quiet;
  ctx.fillText(`${Math.round(usual)}/s`, of.gutter + 4, row.top + 7);
}

/**
 * Missing lines: the time between them is hatched, with the average.
 * @param {Ctx} ctx @param {Window} of @param {{since_us: number, at_us: number}} gap @param {Row} row @param {number} y of the average
 */
function drawUnknown(ctx, of, { since_us, at_us }, row, y) {
  const { palette } = of;
  const { colors } = palette;
  const left = Math.max(of.gutter, Math.round(xOf(of, since_us)));
  const width = Math.min(of.width, Math.round(xOf(of, at_us))) - left;
  if (width < 1) return;
  ctx.fillStyle = width < PATTERN_PX ? colors.edge : palette.hatched(ctx, colors.edge, colors.panel, 1.4);
  ctx.fillRect(left, row.top + 2, width, row.height - 8);
  ctx.fillStyle = colors["edge-strong"];
  for (let at = 0; at < width; at += 5) ctx.fillRect(left + at, Math.round(y), Math.min(2, width - at), LINE_PX);
  const font = `${palette.size - 2}px ${palette.font}`;
  const text = ["unknown: journal lines missing", "unknown", "?"].find((each) => palette.width(ctx, font, each) + 2 * ROOM_MIN <= width);
  if (text === undefined) return;
  ground(ctx, { x: left + 3, y: row.top + 3, width: palette.width(ctx, font, text) + 6, height: row.height - 10 }, colors.panel);
  ctx.font = font;
  ctx.textBaseline = "middle";
  ctx.fillStyle = colors.quiet;
  ctx.fillText(text, left + 6, row.top + row.height / 2 - 1);
}

/** @param {{at_us: number}[]} points @param {number} at_us */
function firstAt(points, at_us) {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].at_us >= at_us) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A process that is down or frozen. @param {Ctx} ctx @param {Window} of @param {Labelled} told @param {Row} row */
function cross(ctx, of, { look, x }, row) {
  const [cx, cy] = [x + 8, row.top + row.height / 2];
  const paused = look.cross === "paused";
  ctx.strokeStyle = paused ? of.palette.colors.warn : of.palette.colors.bad;
  ctx.lineWidth = 1.8;
  ctx.beginPath();
  if (paused) {
    ctx.moveTo(cx - 2, cy - 4);
    ctx.lineTo(cx - 2, cy + 4);
    ctx.moveTo(cx + 2, cy - 4);
    ctx.lineTo(cx + 2, cy + 4);
  } else {
    ctx.moveTo(cx - 3.5, cy - 3.5);
    ctx.lineTo(cx + 3.5, cy + 3.5);
    ctx.moveTo(cx + 3.5, cy - 3.5);
    ctx.lineTo(cx - 3.5, cy + 3.5);
  }
  ctx.stroke();
}

/** A truncated log, without a loss. @param {Ctx} ctx @param {number} x @param {number} y @param {string} color */
function truncation(ctx, x, y, color) {
  ctx.fillStyle = color;
  ctx.fillRect(Math.round(x) - 1, y - 5, 2, 10);
}

/** @param {Ctx} ctx @param {number} x @param {number} y @param {number} size @param {string} color */
function diamond(ctx, x, y, size, color) {
  ctx.fillStyle = color;
  ctx.beginPath();
  ctx.moveTo(x, y - size);
  ctx.lineTo(x + size, y);
  ctx.lineTo(x, y + size);
  ctx.lineTo(x - size, y);
  ctx.fill();
}

/** The background of a text. @param {Ctx} ctx @param {Box} box @param {string} color */
function ground(ctx, { x, y, width, height }, color) {
  ctx.globalAlpha = 0.92;
  ctx.fillStyle = color;
  ctx.fillRect(x, y, width, height);
  ctx.globalAlpha = 1;
}

/**
 * The first of its words that fits into a span, or none. Text of a span that begins left of the window is at the window's edge.
 * @param {Ctx} ctx @param {Window} of @param {Labelled} told @param {Row} row @param {number} after space to keep free before the text
 */
function write(ctx, of, { look, span, x, width }, row, after) {
  const { palette, gutter } = of;
  const left = Math.max(x, gutter) + 6 + after;
  const room = Math.min(x + width, of.width) - left - 4;
  if (room < ROOM_MIN) return;
  const font = `${look.bold ? "600 " : ""}${palette.size - 1}px ${palette.font}`;
  const text = look.words(span).find((each) => palette.width(ctx, font, each) <= room);
  if (text === undefined) return;
  const middle = row.top + row.height / 2;
  const tall = palette.size * 1.2;
  if (look.ground) ground(ctx, { x: left - 3, y: middle - tall / 2, width: palette.width(ctx, font, text) + 6, height: tall }, look.ground);
  ctx.font = font;
  ctx.textBaseline = "middle";
  ctx.fillStyle = look.ink;
  ctx.fillText(text, left, middle + 1);
}
