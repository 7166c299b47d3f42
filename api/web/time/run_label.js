// The name of a run in a list: short and unique. Pure.

import { clockShort } from "../format.js";

/** @typedef {{id: string, title: string, kind: string, of?: string | null, created_ms?: number, variant?: string | null}} Listed */

/**
 * The distinguishing parts of a run come first, since lists are narrow: its scenario and its time. The variant comes
 * last, since the header repeats it next to the list. The title is the same for each run of a scenario.
 * @param {Listed} run
 */
export function runLabel({ id, title, kind, of, created_ms, variant }) {
  if (id === "live") return "live cluster";
  const script = kind === "seed" ? title : of || title || id;
  const differs = variant ? `, ${variant}` : "";
  return `${script}${!created_ms ? "" : ` · ${clockShort(created_ms * 1000)}`}${differs}`;
}
