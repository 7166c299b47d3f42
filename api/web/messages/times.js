// The clock of a run's messages, and readable times. Pure.

import { clock } from "../format.js";

/** Whether the run has one clock for all of its nodes, as a simulated world has. @param {{kind: string} | null} info */
export const hasOneClock = (info) => info !== null && (info.kind === "scenario" || info.kind === "seed");

/**
 * A moment with a useful precision: the time since a simulated world began, or the time of day.
 * @param {{kind: string, first_us: number} | null} info @param {number} us @param {number} window_us
 */
export function moment(info, us, window_us) {
  const digits = window_us < 20_000 ? 4 : window_us < 2_000_000 ? 3 : 1;
  if (info !== null && hasOneClock(info)) return `${((us - info.first_us) / 1e6).toFixed(digits)} s`;
  const at = clock(us);
  return digits === 4 ? `${at}${String(Math.floor((us % 1000) / 100))}` : at.slice(0, at.length - (3 - digits));
}

/** A duration in a readable unit. @param {number} us */
export function span(us) {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(us < 10e6 ? 2 : 0)} s`;
}
