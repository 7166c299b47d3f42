// The place in the address: `#run=live&at=1794&tab=tracks`. A hash without an equals sign is an anchor on the page.
// Pure.

/**
 * @typedef {{run: string, at: number | null, tab: string, pin: number | null, with: string | null, lesson: string | null, lecture: number | null,
 *   scenario: string | null, seed: number | null, bug: "yes" | null}} Place  `at` null is the end of the run: for the live run, now.
 *   `lecture` is the number of a play of the lecture, from 1.
 *   `scenario` names a run that any installation can play, with a seed or with its bug; it replaces `run`, and `with=pair` is its other run.
 */

export const LIVE = "live";
export const TABS = ["tracks", "messages", "links", "table", "lab", "lessons", "compare"];

/** @type {Place} */
export const NOWHERE = { run: LIVE, at: null, tab: "tracks", pin: null, with: null, lesson: null, lecture: null, scenario: null, seed: null, bug: null };

/** The other run of a scenario, in a link that works on any installation. */
export const PAIR = "pair";

/** @param {string | null} text */
const number = (text) => (text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null);

/** The place in a hash; null if the hash is an anchor. @param {string} hash @returns {Place | null} */
export function place(hash) {
  const text = hash.replace(/^#/, "");
  if (text !== "" && !text.includes("=")) return null;
  const parameters = new URLSearchParams(text);
  const tab = parameters.get("tab") ?? NOWHERE.tab;
  return {
    run: parameters.get("run") || LIVE, at: number(parameters.get("at")), tab: TABS.includes(tab) ? tab : NOWHERE.tab,
    pin: number(parameters.get("pin")), with: parameters.get("with") || null, lesson: parameters.get("lesson") || null,
    lecture: number(parameters.get("lecture")),
    scenario: parameters.get("scenario") || null, seed: number(parameters.get("seed")), bug: parameters.get("bug") === "yes" ? "yes" : null,
  };
}

/** The name of a run that any installation can play, as `link` of a run has it. @param {Pick<Place, "scenario" | "seed" | "bug">} of */
export const playedName = ({ scenario, seed, bug }) => `scenario=${scenario}${seed === null ? "" : `&seed=${seed}`}${bug === null ? "" : "&bug=yes"}`;

/** The hash of a place, without default values. @param {Place} of */
export function hash(of) {
  const parameters = Object.entries(of).filter(([name, value]) => value !== null && value !== NOWHERE[/** @type {keyof Place} */ (name)]);
  // A link to a moment contains its run, even the live one, because people read it.
  if (of.at !== null && of.run === LIVE) parameters.unshift(["run", LIVE]);
  return parameters.length ? `#${parameters.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&")}` : "";
}
