// The script of faults: compose steps with times, record faults made by hand, run the script, save it as a scenario file.

import { html, nothing } from "lit-html";

import { curl, outcome, requests } from "../actions.js";
import { offer, takeJson, takes } from "../files.js";
import { interesting, NotPlayed, playKept } from "../lessons/play.js";
import { NoMoment } from "../source/no_moment.js";
import { liveRun, shownRuns } from "../store.js";
import { badge, icon, panel, select, submit } from "../views/parts.js";
import { ACTIONS, empty, fileOf, isName, isScenario, NoScript, scriptOf, sorted, stepOf, words } from "./steps.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("./steps.js").Script} Script
 * @typedef {import("./steps.js").Action} Action
 */

const KEY = "zabka.script";

/** @type {Script | null} */
let script = null;
/** @type {Action} */
let action = "kill";
/** @type {Set<string>} The nodes of the chosen side of a split. */
const side = new Set();
let trouble = "";
/** What was not recorded. @type {string[]} */
let leftOut = [];
/** @type {number | null} When the recording began, by the API's clock. */
let recording_us = null;
let armed = false;

/** Whether a file is a scenario of a whole cluster, which the panel then shows. @param {any} content @param {string} name @param {Moment} moment Raises NoMoment. */
function take(content, name, moment) {
  if (!isScenario(content)) return false;
  try {
    keep(scriptOf(content));
  } catch (reason) {
    throw reason instanceof NoScript ? new NoMoment(`${name} cannot be opened: ${reason.message}`) : reason;
  }
  [trouble, leftOut] = ["", []];
  moment.go({ tab: "lab" });
  return true;
}

/** @param {Moment} moment */
export const takesScripts = (moment) => takes((content, name) => take(content, name, moment));

/** @param {Script} changed */
function keep(changed) {
  script = changed;
  try {
    localStorage.setItem(KEY, JSON.stringify(fileOf(changed)));
  } catch {
    // Without storage, the script is lost with the page.
  }
}

/** The script of the last visit, or an empty one. @param {Model} m @returns {Script} */
function current(m) {
  if (script !== null) return script;
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "null");
    if (isScenario(found)) script = scriptOf(found);
  } catch {
    // Start with an empty script.
  }
  return (script ??= empty(Math.max(1, ...m.peers.map((peer) => peer.id)), Math.max(0, ...m.brokers.filter((b) => b.ours).map((b) => b.id))));
}

/**
 * @param {import("../store.js").State} state @param {Model} m @param {Actions} actions @param {Moment} moment @param {() => void} changed
 */
export function scripts(state, m, actions, moment, changed) {
  const shown = current(m);
  const nodes = [...m.brokers.filter((b) => b.ours), ...m.peers].map((n) => n.name);
  const found = shownRuns(state.scenarios).filter((each) => each.scenario === `${shown.name}.json`);
  const mine = found.find((each) => each.live) ?? found[0] ?? null;
  const aside = html`<span class="sum"><b>${shown.rows.length}</b> ${shown.rows.length === 1 ? "step" : "steps"}</span>`;
  return panel("fault-script", "Script of faults", aside, html`<div class="script">
    <p class="quiet">Faults at fixed times. The same script runs on this cluster and in a simulated world: <code>zabka scenarios run FILE</code>.</p>
    ${about(shown, changed)}${form(shown, nodes, changed)}
    <ol aria-label="Steps">${sorted(shown.rows).map((row, i, rows) => entry(shown, row, follows(rows, i), mine, changed))}
      <li><time>${seconds(shown.end_ms)}</time><span class="quiet">end: all faults end, all nodes start</span></li></ol>
    ${trouble ? html`<p class="bad" role="alert">${icon("bad")} ${trouble}.</p>` : nothing}
    ${leftOut.length ? html`<ul class="problems">${leftOut.map((each) => html`<li>${icon("warn")} not recorded: ${each}</li>`)}</ul>` : nothing}
    ${buttons(shown, state, actions, moment, changed)}${outcomeOf(mine)}</div>`);
}

/** @param {number | null} at_ms */
const seconds = (at_ms) => (at_ms === null ? "first" : `+${at_ms / 1000} s`);

/** @param {Script} shown @param {() => void} changed */
function about(shown, changed) {
  const set = (/** @type {(value: string) => Partial<Script>} */ to) => (/** @type {Event} */ event) => {
    keep({ ...shown, ...to(/** @type {HTMLInputElement} */ (event.target).value) });
    changed();
  };
  return html`<p class="row"><label class="field"><span>name</span><input name="name" maxlength="100" pattern="[a-z0-9][a-z0-9.\\-]*" .value=${shown.name} @change=${set((name) => (isName(name) ? { name } : {}))}></label>
    <label class="field"><span>title</span><input name="title" maxlength="300" .value=${shown.title} @change=${set((title) => ({ title }))}></label>
    <label class="field"><span>ends at, s</span><input name="end" type="number" min="0" max="7000" step="any" .value=${String(shown.end_ms / 1000)} @change=${set((s) => ({ end_ms: Math.max(0, Math.round(Number(s) * 1000)) }))}></label></p>`;
}

/** The form that adds a step. @param {Script} shown @param {string[]} nodes @param {() => void} changed */
function form(shown, nodes, changed) {
  const wanted = /** @type {readonly string[]} */ (ACTIONS[action].fields);
  const has = (/** @type {string} */ field) => wanted.includes(field);
  const choose = (/** @type {string} */ name) => {
    action = /** @type {Action} */ (name);
    changed();
  };
  const add = submit((fields) => {
    const filled = {
      node: fields.node, other: fields.other, both: fields.both === "on", delay_ms: Number(fields.delay_ms), topic: fields.topic,
      count: Number(fields.count), side: nodes.filter((node) => side.has(node)),
    };
    if (action === "split" && (filled.side.length === 0 || filled.side.length === nodes.length)) trouble = "A split needs nodes on both sides";
    else if (has("other") && filled.node === filled.other) trouble = "A link needs two different nodes";
    else {
      trouble = "";
      const at_ms = fields.at === "" ? null : Math.round(Number(fields.at) * 1000);
      keep({ ...shown, rows: sorted([...shown.rows, { at_ms, step: stepOf(action, filled, nodes) }]), end_ms: Math.max(shown.end_ms, at_ms ?? 0) });
    }
    changed();
  });
  const check = (/** @type {string} */ node) => (/** @type {Event} */ event) => {
    if (/** @type {HTMLInputElement} */ (event.target).checked) side.add(node);
    else side.delete(node);
  };
  return html`<form class="row" aria-label="Add a step" @submit=${add}>
    <label class="field"><span>at, s</span><input name="at" type="number" min="0" max="7000" step="any" value="5" title="Seconds after the start; empty for a step before the clock starts"></label>
    ${select("script", "action", "do", Object.entries(ACTIONS).map(([value, { text }]) => ({ value, text })), action, choose)}
    ${has("node") ? select("script", "node", "node", nodes) : nothing}
    ${has("broker") ? select("script", "node", "broker", nodes.filter((node) => node.startsWith("broker-"))) : nothing}
    ${has("other") ? select("script", "other", "to", nodes, nodes[1] ?? "") : nothing}
    ${has("both") ? html`<label class="field check"><input name="both" type="checkbox" checked><span>both ways</span></label>` : nothing}
    ${has("delay") ? html`<label class="field"><span>delay, ms</span><input name="delay_ms" type="number" min="1" max="600000" value="200"></label>` : nothing}
    ${has("topic") ? html`<label class="field"><span>topic of the script</span><input name="topic" required maxlength="200" pattern="[a-zA-Z0-9._\\-]+" value="orders"></label>` : nothing}
    ${has("count") ? html`<label class="field"><span>records</span><input name="count" type="number" min="1" max="1000" value="10"></label>` : nothing}
    ${has("side") ? html`<fieldset class="row sides"><legend class="quiet">one side</legend>${nodes.map((node) => html`<label class="field check"><input type="checkbox" .checked=${side.has(node)} @change=${check(node)}><span>${node}</span></label>`)}</fieldset>` : nothing}
    <button class="primary">Add step</button></form>`;
}

/** Whether a row follows a wait, so that it is later than its time. @param {import("./steps.js").Row[]} rows @param {number} i */
const follows = (rows, i) => rows.slice(0, i).some(({ at_ms, step }) => at_ms === rows[i].at_ms && step.type === "Wait");

/** @param {Script} shown @param {import("./steps.js").Row} row @param {boolean} later @param {any} mine @param {() => void} changed */
function entry(shown, row, later, mine, changed) {
  const text = words(row.step);
  const remove = () => {
    keep({ ...shown, rows: shown.rows.filter((each) => each !== row) });
    changed();
  };
  return html`<li class=${stateOf(shown, row, mine)}><time>${later ? "then" : seconds(row.at_ms)}</time><span>${text}</span>
    <button type="button" class="small" aria-label="Remove ${text}" @click=${remove}>Remove</button></li>`;
}

/** Whether a step has begun in the run. @param {Script} shown @param {import("./steps.js").Row} row @param {any} mine */
function stateOf(shown, row, mine) {
  const number = fileOf(shown).steps.indexOf(row.step) + 1;
  const begun = mine?.live ? mine.begun.at(-1)?.step ?? 0 : 0;
  return begun > number ? "begun" : begun === number && mine.state !== "ended" ? "now" : begun === number ? "begun" : "";
}

/** @param {Script} shown @param {import("../store.js").State} state @param {Actions} actions @param {Moment} moment @param {() => void} changed */
function buttons(shown, state, actions, moment, changed) {
  const live = requests.playFile(fileOf(shown), true);
  const simulated = requests.playFile(fileOf(shown), false);
  const runs = liveRun(state.scenarios);
  const run = () => {
    if (armed) void play(live, actions, changed);
    armed = !armed;
    changed();
  };
  const disarm = () => {
    if (!armed) return;
    armed = false;
    changed();
  };
  const none = shown.rows.length === 0;
  const save = () => offer(new File([`${JSON.stringify(fileOf(shown), null, 1)}\n`], `${shown.name}.json`, { type: "application/json" }));
  const clear = () => {
    keep({ ...empty(shown.peers, shown.brokers), name: shown.name, title: shown.title });
    leftOut = [];
    changed();
  };
  return html`<p class="row">${runs ? html`<button type="button" class="danger" title=${curl(requests.stopRun(runs.id))} ?disabled=${!actions.allows(requests.stopRun(runs.id))} @click=${() => void actions.send(requests.stopRun(runs.id))}>Stop</button>`
    : html`<button type="button" class="danger ${armed ? "sure" : ""}" title=${actions.off ? actions.why : curl(live)} ?disabled=${none || !actions.allows(live)} @click=${run} @blur=${disarm}>${armed ? "Really break this cluster" : "Run on this cluster"}</button>`}
    <button type="button" title=${curl(simulated)} ?disabled=${none || !actions.allows(simulated)} @click=${() => void simulate(simulated, actions, moment, changed)}>Run simulated</button>
    ${record(state, actions, changed)}
    <button type="button" title="The faults in the visible time range of the tracks" ?disabled=${recording_us !== null} @click=${() => void takeRange(actions, moment, changed)}>From the visible time</button>
    <button type="button" ?disabled=${none} @click=${save}>Save as a file</button>${opener(changed)}
    <button type="button" ?disabled=${none} @click=${clear}>Clear</button></p>`;
}

/** Record what is done by hand. @param {import("../store.js").State} state @param {Actions} actions @param {() => void} changed */
function record(state, actions, changed) {
  const now_us = () => Math.round((Date.now() - state.skew_ms) * 1000);
  const press = () => {
    if (recording_us === null) recording_us = now_us();
    else void takeSpan(actions, "live", recording_us, now_us(), changed).then(() => {
      recording_us = null;
      changed();
    });
    changed();
  };
  return html`<button type="button" aria-pressed=${recording_us === null ? "false" : "true"} class=${recording_us === null ? "" : "sure"} title="Record the faults and actions that are made by hand until the next press" ?disabled=${actions.off === "silent"} @click=${press}>${recording_us === null ? "Record" : html`${icon("looking")} Stop recording`}</button>`;
}

/** @param {Actions} actions @param {Moment} moment @param {() => void} changed */
function takeRange(actions, moment, changed) {
  const { from_us, to_us } = moment.timeline.window();
  // The visible time can begin before the oldest stored event, and a span must not.
  const { run, first_us } = moment.current();
  return takeSpan(actions, run, Math.max(first_us, Math.floor(from_us)), Math.ceil(to_us), changed);
}

/** Replace the script by the faults of a span. @param {Actions} actions @param {string} run @param {number} from_us @param {number} to_us @param {() => void} changed */
async function takeSpan(actions, run, from_us, to_us, changed) {
  const answer = await actions.read(requests.script(run, from_us, to_us));
  if (answer?.ok) {
    const found = scriptOf(answer.body.scenario);
    keep({ ...found, name: script && isName(script.name) ? script.name : found.name });
    [trouble, leftOut] = [found.rows.some(({ step }) => step.type !== "Topic") ? "" : "No fault was made by hand in that time", answer.body.left_out];
  } else trouble = `Nothing was recorded: ${answer === null ? "the API does not respond" : outcome(answer)}`;
  changed();
}

/** @param {() => void} changed */
function opener(changed) {
  const choose = (/** @type {Event} */ event) => /** @type {HTMLElement} */ (event.currentTarget).parentElement?.querySelector("input[type=file]")?.dispatchEvent(new MouseEvent("click"));
  const chosen = async (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    const [file] = input.files ?? [];
    input.value = "";
    if (!file) return;
    try {
      if (!(await takeJson(file))) trouble = `${file.name} is no scenario of a whole cluster`;
    } catch (reason) {
      if (!(reason instanceof NoMoment)) throw reason;
      trouble = reason.message;
    }
    changed();
  };
  return html`<button type="button" title="A scenario file; it can also be dropped on the page" @click=${choose}>Open…</button><input type="file" accept=".json" hidden aria-label="Open a scenario file" @change=${chosen}>`;
}

/** Run the script on this cluster. @param {import("../actions.js").Request} request @param {Actions} actions @param {() => void} changed */
async function play(request, actions, changed) {
  const answer = await actions.send(request);
  trouble = answer?.ok ? "" : `The script does not run: ${answer === null ? actions.why || "the API does not respond" : outcome(answer)}`;
  changed();
}

/** Run the script in a simulated world, and show the run. @param {import("../actions.js").Request} request @param {Actions} actions @param {Moment} moment @param {() => void} changed */
async function simulate(request, actions, moment, changed) {
  trouble = "";
  try {
    const place = await interesting(await playKept(request, actions));
    await moment.readRuns();
    if (moment.place.tab === "lab") moment.go({ ...place, tab: "tracks" });
  } catch (reason) {
    if (!(reason instanceof NotPlayed || reason instanceof NoMoment)) throw reason;
    trouble = `The run cannot be shown: ${reason.message}`;
  }
  changed();
}

/** The result of the last run of the script. @param {any} mine */
function outcomeOf(mine) {
  if (mine === null) return nothing;
  const last = mine.begun.at(-1);
  if (mine.state !== "ended") return html`<p role="status">${badge("looking", mine.state, "looking")} ${last ? `step ${last.step} of ${mine.steps}: ${last.text}` : ""}</p>`;
  if (mine.error) return html`<p class="bad" role="alert">${icon("bad")} ${mine.error}</p>`;
  return html`<p role="status">last run: ${mine.as_expected ? badge("ok", "passed", "leading") : badge("bad", "failed", "bad")} ${mine.problems.join("; ")}</p>`;
}
