// The time that the diagram shows: the burst of events around a moment, until the user zooms or moves.  Pure.

/** @typedef {{from_us: number, to_us: number}} Window */

/** With one clock for the whole run, bursts are milliseconds apart; real processes are slower. */
const QUIET_US = { simulated: 12_000, live: 700_000 };
const LONGEST_US = { simulated: 80_000, live: 5_000_000 };
const SHORTEST_US = 2_000;

/**
 * The burst of a moment: events that follow each other without a pause.
 * @param {number[]} times of events, in order @param {number} at @param {"simulated" | "live"} kind @returns {Window}
 */
export function burst(times, at, kind) {
  const [quiet, longest] = [QUIET_US[kind], LONGEST_US[kind]];
  let [from, to] = [at, at];
  for (const us of times.filter((each) => each <= at).reverse()) {
    if (from - us > quiet || to - us > longest) break;
    from = us;
  }
  for (const us of times.filter((each) => each > at)) {
    if (us - to > quiet || us - from > longest) break;
    to = us;
  }
  // Messages that the last event causes arrive after it.
  const room = Math.max(SHORTEST_US, (to - from) * 0.06);
  return { from_us: Math.max(0, Math.floor(from - room)), to_us: Math.ceil(to + room * 5) };
}

const MARGIN_SHARE = 0.04;
const MARGIN_LEAST_US = 100;

/**
 * A burst without the empty time before its first and after its last message or event.
 * @param {Window} of @param {number[]} times @returns {Window}
 */
export function fitted(of, times) {
  const inside = times.filter((us) => us >= of.from_us && us <= of.to_us);
  if (inside.length === 0) return of;
  const [from, to] = [inside.reduce((a, b) => Math.min(a, b)), inside.reduce((a, b) => Math.max(a, b))];
  const margin = Math.ceil(Math.max(MARGIN_LEAST_US, (to - from) * MARGIN_SHARE));
  return { from_us: Math.max(of.from_us, from - margin), to_us: Math.min(of.to_us, to + margin) };
}

/** @param {Window} of @param {number} us */
export const holds = (of, us) => us >= of.from_us && us <= of.to_us;

/**
 * Zoom in or out. A shorter window is computed on the axis as drawn: with even spacing, it contains half as many events.
 * @param {Window} of @param {number} factor below 1 is closer @param {number} around_us stays where it is
 * @param {import("./axis.js").Axis | null} axis as drawn; null for real time @returns {Window}
 */
export function zoomed(of, factor, around_us, axis = null) {
  const to = (/** @type {number} */ us) => {
    if (axis === null || factor >= 1) return around_us + (us - around_us) * factor;
    const x = axis.x(around_us);
    return axis.us(x + (axis.x(us) - x) * factor);
  };
  const from_us = Math.max(0, Math.round(to(of.from_us)));
  return { from_us, to_us: Math.max(from_us + 200, Math.round(to(of.to_us))) };
}

/** @param {Window} of @param {number} share of its width @returns {Window} */
export function moved(of, share) {
  const by = Math.max(-of.from_us, Math.round((of.to_us - of.from_us) * share));
  return { from_us: of.from_us + by, to_us: of.to_us + by };
}
