// How a run is called in a list: short, and different from every other run's.  Pure.

import { clockShort } from "../format.js";

/** @typedef {{id: string, title: string, kind: string, of?: string | null, created_ms?: number, variant?: string | null}} Listed */

/**
 * What distinguishes a run comes first, since lists are narrow: its script and when it was played.  How it differs from its
 * script comes last, since the header repeats that beside the list.  The title is the same for each play of a script.
 * @param {Listed} run
 */
export function runLabel({ id, title, kind, of, created_ms, variant }) {
  if (id === "live") return "live cluster";
  const script = kind === "seed" ? title : of || title || id;
  const differs = variant ? `, ${variant}` : "";
  return `${script}${created_ms === undefined ? "" : ` · ${clockShort(created_ms * 1000)}`}${differs}`;
}
