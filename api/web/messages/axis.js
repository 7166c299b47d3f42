// The time axis of the diagram: real time, real time with idle time folded, or the same distance for each event. Pure.

/**
 * @typedef {"true" | "folded" | "steps"} Kind
 * @typedef {{us: number, x: number}} Knot
 * @typedef {{x(us: number): number, us(x: number): number, ticks: {x: number, us: number}[], folds: {x: number, us: number}[]}} Axis
 */

/** @type {[Kind, string, string][]} */
export const KINDS = [
  ["steps", "Even spacing", "The same distance between all events: shows their order"],
  ["true", "Real time", "Linear time scale"],
  ["folded", "Skip idle time", "Real time, with idle time shortened"],
];
/** Below this distance arrows and their labels overlap. */
const NEAR_PX = 16;
const FEW = 8;

/**
 * The suitable axis for a window: even spacing if most of its moments would be close together in real time.
 * @param {number[]} moments in order @param {number} from @param {number} to both in us @param {number} width in pixels @returns {Kind}
 */
export function suited(moments, from, to, width) {
  const inside = distinct(moments.filter((us) => us >= from && us <= to));
  const near_us = ((to - from) / Math.max(1, width)) * NEAR_PX;
  const near = inside.filter((us, place) => place > 0 && us - inside[place - 1] < near_us).length;
  return inside.length > FEW && near * 2 > inside.length ? "steps" : "true";
}

const FOLD_PX = 26;
const FOLDED_SHARE = 1 / 18;
const TICK_PX = 110;
const NICE = [1, 2, 5];

/**
 * @param {Kind} kind @param {number[]} moments when something happens, in order @param {number} from @param {number} to both in us
 * @param {number} left @param {number} right both in pixels @returns {Axis}
 */
export function axis(kind, moments, from, to, left, right) {
  const inside = distinct([from, ...moments.filter((us) => us > from && us < to), to]);
  const { knots, folds } = kind === "steps" ? steps(inside, left, right) : kind === "folded" ? folded(inside, left, right)
    : { knots: [{ us: from, x: left }, { us: to, x: right }], folds: [] };
  const x = (/** @type {number} */ us) => between(knots, us, "us", "x");
  const us = (/** @type {number} */ at) => between(knots, at, "x", "us");
  const ticks = kind === "true" ? niceTicks(from, to, right - left).map((each) => ({ us: each, x: x(each) })) : sparse(knots);
  return { x, us, ticks, folds };
}

/** @param {number[]} sorted */
const distinct = (sorted) => sorted.filter((us, place) => place === 0 || us > sorted[place - 1]);

/** @param {number[]} moments @param {number} left @param {number} right @returns {{knots: Knot[], folds: {x: number, us: number}[]}} */
function steps(moments, left, right) {
  const step = (right - left) / Math.max(1, moments.length - 1);
  return { knots: moments.map((us, place) => ({ us, x: left + place * step })), folds: [] };
}

/** @param {number[]} moments @param {number} left @param {number} right @returns {{knots: Knot[], folds: {x: number, us: number}[]}} */
function folded(moments, left, right) {
  const [from, to] = [moments[0], moments[moments.length - 1]];
  const gaps = moments.slice(1).map((us, place) => us - moments[place]);
  const long = (to - from) * FOLDED_SHARE;
  const idle = gaps.filter((gap) => gap > long);
  const busy = Math.max(1, to - from - idle.reduce((sum, gap) => sum + gap, 0));
  const scale = Math.max(0, right - left - idle.length * FOLD_PX) / busy;
  /** @type {Knot[]} */
  const knots = [{ us: from, x: left }];
  /** @type {{x: number, us: number}[]} */
  const folds = [];
  let x = left;
  gaps.forEach((gap, place) => {
    const px = gap > long ? FOLD_PX : gap * scale;
    if (gap > long) folds.push({ x: x + px / 2, us: gap });
    x += px;
    knots.push({ us: moments[place + 1], x });
  });
  return { knots, folds };
}

/** Interpolate a value between knots. @param {Knot[]} knots @param {number} at @param {"us" | "x"} given @param {"us" | "x"} wanted */
function between(knots, at, given, wanted) {
  let [low, high] = [0, knots.length - 1];
  if (high < 1) return knots[0][wanted];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (knots[middle][given] <= at) low = middle;
    else high = middle;
  }
  const [a, b] = [knots[low], knots[high]];
  const share = b[given] === a[given] ? 0 : (at - a[given]) / (b[given] - a[given]);
  return a[wanted] + share * (b[wanted] - a[wanted]);
}

/** @param {number} from @param {number} to @param {number} width */
function niceTicks(from, to, width) {
  const rough = ((to - from) / Math.max(1, width)) * TICK_PX;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = (NICE.find((n) => n * power >= rough) ?? 10) * power;
  const ticks = [];
  for (let us = Math.ceil(from / step) * step; us <= to; us += step) ticks.push(us);
  return ticks;
}

/** Knots that are far enough apart for a time label. @param {Knot[]} knots */
function sparse(knots) {
  /** @type {Knot[]} */
  const found = [];
  for (const knot of knots.slice(1, -1)) if (!found.length || knot.x - found[found.length - 1].x >= TICK_PX) found.push(knot);
  return found;
}
