// How long a cluster had no active controller, and the parts of that time: from the death or freeze of the last
// controller to the first decision of the next one. journal/controller_gaps.py does the same and defines the parts.

import { duration } from "./format.js";

/**
 * @typedef {import("./fold.js").ControllerTermView} ControllerTermView
 * @typedef {{from_us: number, to_us: number, detection_us: number | null, election_us: number, loading_us: number}} Gap
 *   `detection_us` is null if no journal reports the end of the session; the election then includes that time.
 */

/** The gap before a controller; null if there is none, or if it is unknown. @param {ControllerTermView[]} controller_terms @param {number} place @returns {Gap | null} */
export function gapBefore(controller_terms, place) {
  const following = controller_terms[place];
  if (following === undefined || following.ready_us == null || place === 0) return null;
  const last = controller_terms.slice(0, place).findLast((term) => term.ready_us != null) ?? controller_terms[place - 1];
  const sessionEnd = last.ended_by === "superseded" ? null : last.until_us;
  const from_us = last.holder_lost_us ?? sessionEnd;
  if (from_us === null) return null;
  const detected = sessionEnd === null ? from_us : Math.max(from_us, sessionEnd);
  const elected = Math.max(detected, following.since_us);
  // Both times are from the same clock, which may differ from the clocks above.
  const loading_us = Math.max(0, following.ready_us - following.since_us);
  return {
    from_us, to_us: elected + loading_us, detection_us: sessionEnd === null ? null : detected - from_us,
    election_us: elected - detected, loading_us,
  };
}

/** A gap's parts as text. @param {Pick<Gap, "detection_us" | "election_us" | "loading_us">} gap */
export function partsText({ detection_us, election_us, loading_us }) {
  const detection = detection_us === null ? [] : [`detection ${duration(detection_us / 1000)}`];
  return [...detection, `election ${duration(election_us / 1000)}`, `loading ${duration(loading_us / 1000)}`].join(", ");
}
