// How a run is called in a list: short, and different from every other run's.  Pure.

import { clockShort } from "../format.js";

/** @typedef {{id: string, title: string, kind: string, of?: string | null, created_ms?: number, variant?: string | null}} Listed */

/**
 * What tells a run from others comes first, since lists are narrow: its script, whether it is the one with the bug, when it was
 * played.  The title, a whole sentence, is the same for each play of a script.
 * @param {Listed} run
 */
export function runLabel({ id, title, kind, of, created_ms, variant }) {
  if (id === "live") return "live cluster";
  const script = kind === "seed" ? title : of || title || id;
  const differs = variant ? `, ${variant}` : "";
  return `${script}${differs}${created_ms === undefined ? "" : ` · ${clockShort(created_ms * 1000)}`}`;
}
