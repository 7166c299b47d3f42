// Which time the diagram shows: the burst of events around a moment, until somebody zooms or moves.  Pure.

/** @typedef {{from_us: number, to_us: number}} Window */

/** Where the run's clock is one for all, bursts are milliseconds apart; real processes take longer over everything. */
const QUIET_US = { simulated: 12_000, live: 700_000 };
const LONGEST_US = { simulated: 80_000, live: 5_000_000 };
const SHORTEST_US = 2_000;

/**
 * The burst that a moment belongs to: what follows on each other without a pause.
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
  // What an event brings about is still under way behind the last one.
  const room = Math.max(SHORTEST_US, (to - from) * 0.06);
  return { from_us: Math.max(0, Math.floor(from - room)), to_us: Math.ceil(to + room * 5) };
}

/** @param {Window} of @param {number} factor below 1 is closer @param {number} around stays where it is @returns {Window} */
export function zoomed(of, factor, around) {
  const from_us = Math.max(0, Math.round(around - (around - of.from_us) * factor));
  return { from_us, to_us: Math.max(from_us + 200, Math.round(around + (of.to_us - around) * factor)) };
}

/** @param {Window} of @param {number} share of its width @returns {Window} */
export function moved(of, share) {
  const by = Math.max(-of.from_us, Math.round((of.to_us - of.from_us) * share));
  return { from_us: of.from_us + by, to_us: of.to_us + by };
}
