// What if, in a simulated run of a seed or in a fork: the run is played again without faults, with another setting, or
// with a node that dies at this moment.

import { html, nothing } from "lit-html";

import { requests } from "../actions.js";
import { clock } from "../format.js";
import { NotPlayed, playKept } from "../lessons/play.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";
import { forkable } from "../time/run.js";
import { Answers } from "../why/answers.js";
import { icon, panel, select, submit } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {{seq: number, wall_us: number, fault_id: string, kind: string, source: string, target: string}} Fault
 */

const LASTS_MS = 10_000;
const FAULTS_MAX = 1000;
const LISTED_MAX = 5;
/** Settings to choose from; others can be typed. Brokers can change the first ones while they run. */
const KEYS = ["unclean.leader.election.enable", "min.insync.replicas", "replica.lag.time.max.ms", "zookeeper.session.timeout.ms", "tickTime", "syncLimit"];
/** The ids of faults that the seed draws; others are parts of a fork. */
const DRAWN = /^f\d+$/;
const answers = new Answers();
/** @type {{run: string, what: string, trouble: string} | null} The fork that was requested last. */
let asked = null;

/** @param {Model} m @param {Moment} moment @param {Actions} actions @param {() => void} changed */
export function forkPanel(m, moment, actions, changed) {
  const { run, seq, at_us, live, info } = moment.current();
  if (!source().live || live || !forkable(info)) return nothing;
  const last = info?.origin?.changes.at(-1);
  const last_us = last?.at_us ?? 0;
  // The fork begins just after the shown event.
  const early = at_us + 1 < last_us;
  const busy = asked?.run === run && asked.trouble === "";
  const off = busy || !actions.allows(requests.fork(run, {}));
  const play = (/** @type {unknown} */ change, /** @type {string} */ what) => void fork(run, change, what, actions, moment, changed);
  const running = [...m.brokers, ...m.peers].filter(({ process }) => process === "running").map(({ name }) => name);
  return panel("fork", "What if", nothing, html`<div class="forks">
    <form class="row" aria-label="Fork with a dead node" @submit=${submit(({ node }) => node && play({ at: seq, kill: [node], lasts_ms: LASTS_MS }, `${node} dies at event ${seq}`))}>
      ${select("fork", "node", "node", running)}<button class="small danger" ?disabled=${off || early || !running.length}>Died here</button></form>
    ${setting(seq, off || early, last?.from_start ?? true, play)}
    ${without(run, seq, last_us, off, play, changed)}
    ${early ? html`<p class="warn">${icon("warn")} This fork can only be forked after its last change, at <time>${clock(last_us)}</time>.</p>` : nothing}
    ${busy ? html`<p role="status">${icon("hourglass")} Playing the seed again: ${asked?.what}…</p>` : html`<p class="quiet">The seed is played again with the same history up to the change. Both runs open side by side.</p>`}
    ${asked?.run === run && asked.trouble ? html`<p class="bad" role="alert">${icon("bad")} Not possible: ${asked.what}: ${asked.trouble}.</p>` : nothing}</div>`);
}

/** @param {string} run @param {number} seq @param {number} since_us @param {boolean} off @param {(change: unknown, what: string) => void} play @param {() => void} changed */
function without(run, seq, since_us, off, play, changed) {
  const answer = answers.of(`/runs/${run}/journal?types=fault_injected`, changed, async () => (await source().events(run, { types: ["fault_injected"], limit: FAULTS_MAX })).entries);
  if (answer.state !== "ready") return answer.state === "failed" ? html`<p class="quiet">Cannot read the faults: ${answer.message}.</p>` : nothing;
  /** @type {Fault[]} */
  const faults = answer.value.filter((/** @type {Fault} */ each) => DRAWN.test(each.fault_id) && each.wall_us >= since_us);
  if (faults.length === 0) return nothing;
  const here = faults.filter((each) => each.seq <= seq).at(-1) ?? faults[0];
  const choices = faults.map((each) => ({ value: each.fault_id, text: described(each) }));
  const left_out = (/** @type {HTMLFormElement} */ form) => new FormData(form).getAll("fault").map(String);
  const leaveOut = (/** @type {unknown} */ _, /** @type {HTMLFormElement} */ form) => {
    const found = left_out(form);
    if (found.length) play({ without: found }, `without ${found.join(", ")}`);
  };
  return html`<form class="row" aria-label="Fork without faults" @submit=${submit(leaveOut)}>
    <div class="field"><label for="fork-fault">faults</label><select id="fork-fault" name="fault" multiple size=${Math.min(LISTED_MAX, choices.length)}>
      ${choices.map(({ value, text }) => html`<option value=${value} ?selected=${value === here.fault_id}>${text}</option>`)}</select></div>
    <button class="small" ?disabled=${off}>Not there</button></form>`;
}

/** @param {number} seq @param {boolean} off @param {boolean} startable whether it can be set from the start: not after a later change @param {(change: unknown, what: string) => void} play */
function setting(seq, off, startable, play) {
  const change = submit(({ key, value, from }) => {
    if (!key || !value) return;
    const settings = { [key]: value };
    if (from === "start") play({ settings }, `${key}=${value} from the start`);
    else play({ at: seq, settings }, `${key}=${value} from event ${seq}`);
  });
  return html`<form class="row" aria-label="Fork with another setting" @submit=${change}>
    <label class="field"><span>setting</span><input name="key" list="fork-keys" required></label><datalist id="fork-keys">${KEYS.map((key) => html`<option value=${key}></option>`)}</datalist>
    <label class="field"><span>value</span><input name="value" required></label>
    ${select("fork", "from", "from", [{ value: "here", text: "this moment" }, ...(startable ? [{ value: "start", text: "the start" }] : [])])}<button class="small" ?disabled=${off}>Change</button></form>`;
}

/** @param {Fault} fault */
const described = ({ fault_id, kind, source: from, target, seq }) => `${fault_id}: ${kind.replaceAll("_", " ")} of ${from}${target && target !== from ? ` → ${target}` : ""} (event ${seq})`;

/** Play the fork, and open both runs side by side. @param {string} run @param {unknown} change @param {string} what @param {Actions} actions @param {Moment} moment @param {() => void} changed */
async function fork(run, change, what, actions, moment, changed) {
  const mine = (asked = { run, what, trouble: "" });
  changed();
  try {
    const kept = await playKept(requests.fork(run, change), actions);
    await moment.readRuns();
    const found = moment.runs.find((each) => each.id === kept.bug);
    // Do not move users who look at another run now.
    if (asked === mine && found && moment.current().run === run) moment.go({ run: found.id, at: found.decisive_seq ?? null, with: run, tab: "compare" });
    if (asked === mine) asked = null;
  } catch (reason) {
    if (!(reason instanceof NotPlayed || reason instanceof NoMoment)) throw reason;
    mine.trouble = reason.message;
  }
  changed();
}
