// A script of faults as rows with times, and as the scenario file that `zabka scenarios run` and the simulated world read.
// Pure.

/**
 * @typedef {{type: string, [field: string]: any}} Step  A step of the scenario file.
 * @typedef {{at_ms: number | null, step: Step}} Row  `at_ms` null is before the clock starts: topics, first records.
 * @typedef {{name: string, title: string, hypothesis: string, rows: Row[], end_ms: number, peers: number, brokers: number,
 *   rest: Record<string, unknown>}} Script  `rest` are the other fields of its file.
 */

export const HYPOTHESIS = "After the last fault has ended, the cluster recovers, and no acknowledged record is lost.";
const OWN = ["driver", "name", "title", "hypothesis", "peers", "brokers", "steps"];
/** @type {[string, string[]][]} The subjects of a script, by its steps. */
const SUBJECTS = [["election", ["Kill", "Stop", "Elect"]], ["sessions", ["Pause"]], ["network", ["Cut", "Split", "Delay"]]];

/** @param {number} peers @param {number} brokers @returns {Script} */
export const empty = (peers, brokers) => ({ name: "my-script", title: "My script", hypothesis: HYPOTHESIS, rows: [], end_ms: 30_000, peers, brokers, rest: {} });

/** Whether parsed JSON is a scenario of a whole cluster. @param {any} content */
export const isScenario = (content) => typeof content === "object" && content !== null && content.driver === "world" && Array.isArray(content.steps);

/** A scenario file that is not valid; the message is the reason. */
export class NoScript extends Error {}

/** @param {any} value */
const isText = (value) => typeof value === "string";
/** @param {any} value */
const isNumber = (value) => Number.isSafeInteger(value) && value >= 0;
/** @param {any} value */
const isTexts = (value) => Array.isArray(value) && value.every(isText);
/** @param {any} value */
const isLists = (value) => Array.isArray(value) && value.every(isTexts);
/** @type {Record<string, Record<string, (value: any) => boolean>>} The fields of the steps that the page shows in words; `?` marks an optional one. */
const FIELDS = {
  At: { ms: isNumber }, Wait: { ms: isNumber }, Kill: { nodes: isTexts }, Restart: { "nodes?": isTexts }, Heal: { "nodes?": isTexts },
  Stop: { node: isText }, Pause: { node: isText }, Resume: { node: isText }, Down: { node: isText }, Cut: { node: isText, others: isTexts },
  Delay: { node: isText, others: isTexts, delay_ms: isNumber }, Split: { sides: isLists }, Topic: { topic: isText, "replicas?": isLists },
  Produce: { partition: isText, "count?": isNumber }, Elect: { partition: isText },
};
/** The fields of a file, in the same form. */
const FILE = { name: isText, "title?": isText, "hypothesis?": isText, "peers?": isNumber, "brokers?": isNumber };

/** The first field that is missing or not valid. @param {any} of @param {Record<string, (value: any) => boolean>} fields */
const wrongField = (of, fields) => Object.entries(fields).map(([field, valid]) => ({ name: field.replace("?", ""), valid, optional: field.endsWith("?") }))
  .find(({ name, valid, optional }) => !(optional && of[name] === undefined) && !valid(of[name]))?.name;

/** @param {any} file Raises NoScript. */
function check(file) {
  const wrong = wrongField(file, FILE);
  if (wrong !== undefined) throw new NoScript(`its ${wrong} is missing or not valid`);
  for (const [i, step] of file.steps.entries()) {
    if (!isText(step?.type)) throw new NoScript(`step ${i + 1} has no type`);
    const bad = Object.hasOwn(FIELDS, step.type) ? wrongField(step, FIELDS[step.type]) : undefined;
    if (bad !== undefined) throw new NoScript(`${bad} of step ${i + 1} (${step.type}) is missing or not valid`);
  }
}

/** The rows of a scenario file. A `Wait` step is a row: its length can depend on the cluster. @param {any} file @returns {Script} Raises NoScript. */
export function scriptOf(file) {
  check(file);
  /** @type {Row[]} */
  const rows = [];
  /** @type {number | null} */
  let at_ms = null;
  for (const step of file.steps) {
    // A step `At` whose time has passed does not wait.
    if (step.type === "At") at_ms = Math.max(at_ms ?? 0, step.ms);
    // Every script of this page begins with it.
    else if (step.type !== "Cast" || step.controller !== undefined || step.others !== undefined) rows.push({ at_ms, step });
  }
  const rest = Object.fromEntries(Object.entries(file).filter(([name]) => !OWN.includes(name)));
  return {
    name: file.name, title: file.title ?? file.name, hypothesis: file.hypothesis ?? "", rows, end_ms: at_ms ?? 0,
    peers: file.peers ?? 3, brokers: file.brokers ?? 0, rest,
  };
}

/** The scenario file of a script. @param {Script} script */
export function fileOf({ name, title, hypothesis, rows, end_ms, peers, brokers, rest }) {
  /** @type {Step[]} */
  const steps = brokers ? [{ type: "Cast" }] : [];
  /** @type {number | null} */
  let clock = null;
  for (const { at_ms, step } of sorted(rows)) {
    if (at_ms !== null && at_ms !== clock) steps.push({ type: "At", ms: at_ms });
    clock = at_ms;
    steps.push(step);
  }
  if (end_ms > (clock ?? 0)) steps.push({ type: "At", ms: end_ms });
  const types = new Set(rows.map(({ step }) => step.type));
  const subjects = SUBJECTS.filter(([, of]) => of.some((type) => types.has(type))).map(([subject]) => subject);
  return { driver: "world", name, title, hypothesis, subjects, ...rest, peers, brokers, steps };
}

/** The rows in the order of their times; rows of the same time stay as they are. @param {Row[]} rows */
export const sorted = (rows) => rows.toSorted((a, b) => (a.at_ms ?? -1) - (b.at_ms ?? -1));

/** Every action of the form, with the fields that it needs. */
export const ACTIONS = /** @type {const} */ ({
  kill: { text: "kill", fields: ["node"] },
  stop: { text: "shut down", fields: ["broker"] },
  pause: { text: "pause", fields: ["node"] },
  resume: { text: "resume", fields: ["node"] },
  start: { text: "start", fields: ["node"] },
  cut: { text: "cut the link", fields: ["node", "other", "both"] },
  delay: { text: "delay the link", fields: ["node", "other", "delay"] },
  split: { text: "split the network", fields: ["side"] },
  heal: { text: "heal all faults", fields: [] },
  topic: { text: "create a topic", fields: ["topic"] },
  records: { text: "send records", fields: ["topic", "count"] },
  elect: { text: "elect the preferred leader", fields: ["topic"] },
});

/** @typedef {keyof typeof ACTIONS} Action */

/**
 * The step of a filled form.
 * @param {Action} action @param {{node: string, other: string, both: boolean, delay_ms: number, topic: string, count: number, side: string[]}} form
 * @param {string[]} nodes all nodes @returns {Step}
 */
export function stepOf(action, { node, other, both, delay_ms, topic, count, side }, nodes) {
  const brokers = nodes.filter((each) => each.startsWith("broker-"));
  switch (action) {
    case "kill": return { type: "Kill", nodes: [node] };
    case "stop": return { type: "Stop", node };
    case "pause": return { type: "Pause", node };
    case "resume": return { type: "Resume", node };
    case "start": return { type: "Restart", nodes: [node] };
    case "cut": return { type: "Cut", node, others: [other], ...(both ? {} : { both_ways: false }) };
    case "delay": return { type: "Delay", node, others: [other], delay_ms };
    case "split": return { type: "Split", sides: [side, nodes.filter((each) => !side.includes(each))] };
    case "heal": return { type: "Heal" };
    case "topic": return { type: "Topic", topic, replicas: [brokers.slice(0, 3)] };
    case "records": return { type: "Produce", partition: `${topic}-0`, count };
    case "elect": return { type: "Elect", partition: `${topic}-0` };
  }
}

/** @param {any} value @returns {string} */
const list = (value) => (Array.isArray(value) ? value.map(list).join(", ") : String(value));

/** A step in words. @param {Step} step */
export function words(step) {
  const { type } = step;
  switch (type) {
    case "Kill": return `${step.power_loss ? "cut the power of" : "kill"} ${list(step.nodes)}`;
    case "Stop": return `shut down ${step.node}`;
    case "Pause": case "Resume": return `${type.toLowerCase()} ${step.node}`;
    case "Restart": return step.nodes?.length ? `start ${list(step.nodes)}` : "start all nodes that are down";
    case "Wait": return `wait ${step.ms / 1000} s`;
    case "Down": return `wait until ${step.node} is down`;
    case "Cut": return `cut ${step.node} ${step.both_ways === false ? "→" : "↔"} ${list(step.others)}`;
    case "Delay": return `delay ${step.node} → ${list(step.others)} by ${step.delay_ms} ms`;
    case "Split": return `split ${(step.sides ?? []).map((/** @type {string[]} */ side) => `{${list(side)}}`).join(" | ")}`;
    case "Heal": return step.nodes?.length ? `heal ${list(step.nodes)}` : "heal all faults";
    case "Topic": return `create topic ${step.topic}, replicas ${list(step.replicas?.[0] ?? [])}`;
    case "Produce": return `send ${step.count ?? 1} records to ${step.partition}`;
    case "Elect": return `elect the preferred leader of ${step.partition}`;
    default: return `${type} ${Object.entries(step).filter(([name]) => name !== "type").map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ")}`.trim();
  }
}

/** Whether the text can be the name of a scenario file. @param {string} name */
export const isName = (name) => /^[a-z0-9][a-z0-9.-]{0,99}$/.test(name);
