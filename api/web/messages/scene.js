// The layout of the diagram: lanes, arrows, stubs, events, and labels that do not overlap. Pure.

import { axis } from "./axis.js";
import { isAnswer, label, protocol, rank } from "./words.js";

/**
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("./words.js").Message} Message
 * @typedef {import("./words.js").Protocol} Protocol
 * @typedef {import("./phases.js").Phase} Phase
 * @typedef {import("./lanes.js").Lane} Lane
 * @typedef {"arrow" | "stub" | "loop"} Shape  A stub never arrived; a loop is a message of a process to itself.
 * @typedef {{message: Message, shape: Shape, protocol: Protocol, faint: boolean, x1: number, y1: number, x2: number, y2: number}} Arrow
 * @typedef {{entry: Entry, text: string, weight: string, x: number, y: number}} Point
 * @typedef {{text: string, x: number, y: number, width: number, bold: boolean, protocol: Protocol | null}} Name
 * @typedef {{x: number, y: number, width: number, height: number}} Box
 * @typedef {{width: number, height: number, gutter: number, top: number, lanes: (Lane & {y: number})[], arrows: Arrow[], points: Point[],
 *   names: Name[], unnamed: number, axis: import("./axis.js").Axis, phases: (Phase & {x1: number, x2: number})[]}} Scene
 */

const LANE_PX = { least: 44, most: 64 };
const LANES_PX = 430;
const TOP_PX = 62;
const BOTTOM_PX = 22;
const RIGHT_PX = 16;
const STUB_SHARE = 0.42;
const LOOP_PX = 13;
const LINE_PX = 13;
const TRIES = [0.5, 0.34, 0.66, 0.2, 0.8];
const NAMED_MAX = 400;
const EVENT_TEXT_MAX = 44;
/** Events that repeat the messages next to them. */
const UNNAMED = /^(txn|ephemeral|write|zxid|followership|session_created)/;
/** Events that cause most others in the window. */
const TURNS = /^(session_expired|log_truncated|fault_injected|leadership_taken|epoch_accepted)$/;
/** @type {Record<string, number>} Among the ranks of messages. */
const EVENT_RANKS = { loss: -2, election: -1, trouble: -1, plain: 1.5 };

/**
 * @param {{messages: Message[], events: {entry: Entry, us: number, text: string, weight: string}[], lanes: Lane[], phases: Phase[],
 *   kind: import("./axis.js").Kind, window: import("./window.js").Window, width: number, measure: (text: string, bold: boolean) => number}} of
 * @returns {Scene}
 */
export function scene({ messages, events, lanes, phases, kind, window: { from_us, to_us }, width, measure }) {
  const gutter = width < 560 ? 92 : 142;
  const top = TOP_PX;
  const apart = Math.min(LANE_PX.most, Math.max(LANE_PX.least, Math.floor(LANES_PX / Math.max(1, lanes.length))));
  const rows = lanes.map((lane, place) => ({ ...lane, y: top + place * apart + 14 }));
  const y = new Map(rows.map((row) => [row.name, row.y]));
  const moments = [...messages.flatMap((each) => [each.sent_us, each.arrived_us ?? each.sent_us]), ...events.map((each) => each.us)].sort((a, b) => a - b);
  const scale = axis(kind, moments, from_us, to_us, gutter, width - RIGHT_PX);
  const height = top + rows.length * apart + BOTTOM_PX;
  const arrows = messages.map((message) => arrow(message, scale, y));
  const points = events.flatMap(({ entry, us, text, weight }) => {
    const at = y.get(laneOf(entry, y));
    return at === undefined ? [] : [{ entry, text: short(text), weight, x: scale.x(us), y: at }];
  });
  const named = names(arrows, points, measure, { x: gutter, y: top - 12, width: width - gutter, height: height - top });
  return {
    width, height, gutter, top, lanes: rows, arrows, points, ...named, axis: scale,
    phases: phases.filter((phase) => phase.to_us > from_us && phase.from_us < to_us)
      .map((phase) => ({ ...phase, x1: scale.x(Math.max(from_us, phase.from_us)), x2: scale.x(Math.min(to_us, phase.to_us)) })),
  };
}

/** Faults are not logged by the affected process: they are drawn at the node that they affect. @param {Entry} entry @param {Map<string, number>} y */
function laneOf(entry, y) {
  if (y.has(entry.node)) return entry.node;
  return [entry.target, entry.source].find((name) => y.has(name)) ?? "";
}

/** @param {Message} message @param {import("./axis.js").Axis} scale @param {Map<string, number>} y @returns {Arrow} */
function arrow(message, scale, y) {
  const [y1, y2] = [y.get(message.from) ?? 0, y.get(message.to) ?? 0];
  const x1 = scale.x(message.sent_us);
  const common = { message, protocol: protocol(message), faint: isAnswer(message) || protocol(message) === "beat" };
  if (message.arrived_us === null) {
    const x2 = x1 + 16;
    return { ...common, shape: "stub", x1, y1, x2, y2: y1 + (y2 - y1) * STUB_SHARE + (y1 === y2 ? -LOOP_PX : 0) };
  }
  return { ...common, shape: y1 === y2 ? "loop" : "arrow", x1, y1, x2: scale.x(message.arrived_us), y2 };
}

/** @param {string} text */
const short = (text) => (text.length > EVENT_TEXT_MAX ? `${text.slice(0, EVENT_TEXT_MAX - 1)}…` : text);

/**
 * Place labels where there is space, the most important first. Labels without space are shown on hover.
 * @param {Arrow[]} arrows @param {Point[]} points @param {(text: string, bold: boolean) => number} measure @param {Box} room
 * @returns {{names: Name[], unnamed: number}}
 */
function names(arrows, points, measure, room) {
  const taken = new Places();
  for (const { x, y } of points) taken.take({ x: x - 4, y: y - 4, width: 8, height: 8 });
  /** @type {Name[]} */
  const found = [];
  let unnamed = 0;
  const put = (/** @type {Name} */ name) => {
    const box = { x: name.x - 1, y: name.y - LINE_PX + 3, width: name.width + 2, height: LINE_PX };
    if (box.x < room.x || box.x + box.width > room.x + room.width || box.y < room.y || !taken.isFree(box)) return false;
    taken.take(box);
    found.push(name);
    return true;
  };
  const candidates = [
    ...points.filter(({ entry }) => !UNNAMED.test(entry.type)).map((each) => ({ each, rank: TURNS.test(each.entry.type) ? -1 : EVENT_RANKS[each.weight] ?? 1.5, x: each.x })),
    ...arrows.filter((each) => rank(each.message) < 4 && each.protocol !== "beat").map((each) => ({ each, rank: rank(each.message), x: each.x1 })),
  ].sort((a, b) => a.rank - b.rank || a.x - b.x);
  for (const { each } of candidates.slice(0, NAMED_MAX)) {
    if (!("entry" in each ? nameOfEvent(each, measure, put) : nameOf(each, measure, put))) unnamed += 1;
  }
  return { names: found, unnamed: unnamed + Math.max(0, candidates.length - NAMED_MAX) };
}

/** The occupied parts of the drawing, by lines of text, so that a box is only compared with its neighbours. */
class Places {
  constructor() {
    /** @type {Map<number, Box[]>} */
    this.lines = new Map();
  }

  /** @param {Box} box */
  take(box) {
    for (const line of linesOf(box)) {
      const boxes = this.lines.get(line);
      if (boxes) boxes.push(box);
      else this.lines.set(line, [box]);
    }
  }

  /** @param {Box} box */
  isFree(box) {
    return !linesOf(box).some((line) => this.lines.get(line)?.some((each) => collide(each, box)));
  }
}

/** @param {Box} box */
function linesOf({ y, height }) {
  const [first, last] = [Math.floor(y / LINE_PX), Math.floor((y + height) / LINE_PX)];
  return first === last ? [first] : [first, last];
}

/** @param {Point} point @param {(text: string, bold: boolean) => number} measure @param {(name: Name) => boolean} put */
function nameOfEvent(point, measure, put) {
  const width = measure(point.text, true);
  const spots = [[point.x + 7, point.y - 8], [point.x + 7, point.y + 16], [point.x - 7 - width, point.y - 8], [point.x - 7 - width, point.y + 16]];
  return spots.some(([x, y]) => put({ text: point.text, x, y, width, bold: true, protocol: null }));
}

/** @param {Arrow} each @param {(text: string, bold: boolean) => number} measure @param {(name: Name) => boolean} put */
function nameOf(each, measure, put) {
  const text = label(each.message);
  const width = measure(text, false);
  const above = each.shape === "loop" ? -LOOP_PX - 3 : 4;
  return TRIES.some((share) => {
    const [x, y] = [each.x1 + (each.x2 - each.x1) * share, each.y1 + (each.y2 - each.y1) * share];
    return [x + 4, x - width - 4, x - width / 2].some((left) => put({ text, x: left, y: y + above, width, bold: false, protocol: each.protocol }));
  });
}

/** @param {Box} a @param {Box} b */
const collide = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

const NEAR_PX = 7;

/** The target of the pointer: an event before a message, the nearest of each. @param {Scene} of @param {number} x @param {number} y @returns {Arrow | Point | null} */
export function pointedAt(of, x, y) {
  const point = of.points.find((each) => Math.hypot(each.x - x, each.y - y) <= NEAR_PX);
  if (point) return point;
  /** @type {Arrow | null} */
  let best = null;
  let nearest = NEAR_PX;
  for (const each of of.arrows) {
    const away = distance(each, x, y);
    if (away < nearest) [best, nearest] = [each, away];
  }
  return best;
}

/** The distance of a point from an arrow. @param {Arrow} each @param {number} x @param {number} y */
function distance(each, x, y) {
  const lift = each.shape === "loop" ? LOOP_PX : 0;
  const [dx, dy] = [each.x2 - each.x1, each.y2 - each.y1];
  const along = Math.min(1, Math.max(0, ((x - each.x1) * dx + (y + lift - each.y1) * dy) / Math.max(1, dx * dx + dy * dy)));
  return Math.hypot(x - each.x1 - along * dx, y + lift - each.y1 - along * dy);
}
