// The library: scenarios, lessons and stored runs as one list that can be searched and filtered. Pure.

/**
 * @typedef {{kind: "scenario" | "lesson" | "run", name: string, title: string, text: string, subjects: string[], system: "Kafka" | "ZooKeeper" | "",
 *   live: boolean, lost: boolean, of: any}} Item  `text` is searched too; `of` is the scenario, lesson or run itself.
 * @typedef {{text: string, kind: string, subject: string, system: string, live: boolean, lost: boolean}} Filter
 */

/** @type {Filter} */
export const ALL = { text: "", kind: "scenario", subject: "", system: "", live: false, lost: false };
export const KINDS = { "": "all", scenario: "scenarios", lesson: "lessons", run: "stored runs" };
const LOST = /lost|lose|survive/i;

/**
 * @param {any[]} scenarios @param {import("../lessons/tab.js").Lesson[]} lessons @param {import("../time/run.js").RunInfo[]} runs
 * @returns {Item[]}
 */
export function items(scenarios, lessons, runs) {
  const by_name = new Map(scenarios.map((script) => [script.name, script]));
  const of_scripts = scenarios.map((script) => item("scenario", script.name, script.title, script, script));
  const of_lessons = lessons.map((lesson) => item("lesson", lesson.name, lesson.title, by_name.get(lesson.scenario), lesson));
  const of_runs = runs.filter((run) => run.kind !== "live").map((run) => {
    const found = item("run", run.id, run.title, run.kind === "scenario" ? by_name.get(run.of ?? "") : undefined, run);
    // The run without the bug has lost no records.
    return { ...found, lost: found.lost && run.id.endsWith(".bug") };
  });
  return [...of_scripts, ...of_lessons, ...of_runs];
}

/** @param {Item["kind"]} kind @param {string} name @param {string} title @param {any} script the scenario, if it is in the library @param {any} of @returns {Item} */
function item(kind, name, title, script, of) {
  const text = [script?.name, script?.title, script?.hypothesis, script?.source, ...(script?.switches ?? []), of.question, of.of, of.variant].filter(Boolean).join(" ");
  return {
    kind, name, title, text, of, subjects: script?.subjects ?? [], system: script === undefined ? "" : script.brokers > 0 ? "Kafka" : "ZooKeeper",
    live: script !== undefined && script.running_obstacle === null, lost: LOST.test(script?.outage?.shows ?? ""),
  };
}

/** The items that pass the filter: with all words of its text in their names, titles, texts or subjects. @param {Item[]} all @param {Filter} filter */
export function filtered(all, { text, kind, subject, system, live, lost }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return all.filter((each) => {
    const searched = [each.name, each.title, each.text, ...each.subjects].join(" ").toLowerCase();
    return (!kind || each.kind === kind) && (!subject || each.subjects.includes(subject)) && (!system || each.system === system)
      && (!live || each.live) && (!lost || each.lost) && words.every((word) => searched.includes(word));
  });
}

/** The subjects that occur, with the number of their items. @param {Item[]} all @returns {[string, number][]} */
export function subjectsOf(all) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const subject of all.flatMap((each) => each.subjects)) counts.set(subject, (counts.get(subject) ?? 0) + 1);
  return [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1));
}
