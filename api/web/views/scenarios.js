// The outage library: outages of other systems, run in a simulated world next to this cluster, and their stories.

import { html, nothing } from "lit-html";
import { guard } from "lit-html/directives/guard.js";
import { keyed } from "lit-html/directives/keyed.js";
import { ref } from "lit-html/directives/ref.js";

import { curl, requests } from "../actions.js";
import { count, plural } from "../format.js";
import { filtered, items } from "../library/filter.js";
import { otherRow, search, subjects, wanted } from "../library/search.js";
import { interesting, NotPlayed } from "../lessons/play.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";
import { shownRuns } from "../store.js";
import { Answers } from "../why/answers.js";
import { badge, copyable, icon, panel } from "./parts.js";

/**
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("../store.js").State} State
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {{at_ms: number, who: string, text: string}} Line
 */

const lessons = new Answers();
/** @type {{name: string, trouble: string} | null} The last requested scenario, and why it is not shown. */
let requested = null;

/** Run a scenario, and go to its decisive moment. @param {string} name @param {Actions} actions @param {Moment} moment @param {() => void} changed */
async function playAndOpen(name, actions, moment, changed) {
  const mine = (requested = { name, trouble: "" });
  changed();
  try {
    const place = await interesting(await source().play(name, null, actions));
    await moment.readRuns();
    // Do not move users who have chosen another tab or started another scenario meanwhile.
    if (requested === mine && moment.place.tab === "lab") moment.go({ ...place, tab: "tracks" });
  } catch (reason) {
    if (!(reason instanceof NotPlayed || reason instanceof NoMoment)) throw reason;
    mine.trouble = reason.message;
  }
  changed();
}

/** Run a scenario on the cluster itself, and show the tracks. @param {string} name @param {Actions} actions @param {Moment} moment */
async function playHere(name, actions, moment) {
  const answer = await actions.send(requests.playLive(name));
  if (answer?.ok) moment.go({ run: "live", at: null, tab: "tracks" });
}

/**
 * It breaks the cluster, so it takes two presses. A single button keeps the focus between them.
 * @param {any} script @param {State} state @param {Actions} actions @param {Moment} moment @param {() => void} changed
 */
function live({ name, running_obstacle }, state, actions, moment, changed) {
  const { ui } = state;
  const key = `play ${name}`;
  const armed = ui.armed === key;
  const arm = (/** @type {string | null} */ to) => () => {
    if (to === null && ui.armed !== key) return;
    ui.armed = to;
    changed();
  };
  const sure = () => {
    ui.armed = null;
    void playHere(name, actions, moment);
  };
  if (running_obstacle !== null) return html`<button type="button" class="small" disabled aria-label="Play ${name} live" title="cannot run on a live cluster: ${running_obstacle}">Live</button>`;
  if (!actions.allows(requests.playLive(name))) return html`<button type="button" class="small" disabled aria-label="Play ${name} live" title=${actions.why}>Live</button>`;
  return html`<button type="button" class="small danger ${armed ? "sure" : ""}" aria-label="${armed ? `Really break this cluster with ${name}` : `Play ${name} live`}"
    title=${curl(requests.playLive(name))} @click=${armed ? sure : arm(key)} @blur=${armed ? arm(null) : nothing}>${armed ? html`${icon("warn")} Really break this cluster` : "Live"}</button>`;
}

/** @param {State} state @param {Actions} actions @param {Moment} moment @param {() => void} changed */
export function scenarios(state, actions, moment, changed) {
  const { list, run, message } = state.scenarios;
  const aside = list.length ? html`<span class="sum"><b>${list.length}</b> scenarios</span>`
    : html`<button type="button" class="small" ?disabled=${state.scenarios.state === "loading"}
      @click=${() => void actions.loadScenarios()}>${state.scenarios.state === "loading" ? "Loading…" : "Show the library"}</button>`;
  const intro = html`<p class="quiet">${message || `Outages of ZooKeeper and Kafka as scenarios. They run in a simulated world and do not
    touch this cluster. A Kafka outage runs twice: with zabka as it is, and with the bug or setting of the outage. “Live” runs a scenario on this cluster and breaks it.`}</p>`;
  // The run is above the list, where users look for it after pressing Play.
  return panel("scenarios", "Outage library", aside, html`${shownRuns(state.scenarios).map((each) => keyed(each.id, runView(list, each)))}
    ${requested?.trouble && !run?.error ? html`<p class="bad" role="alert">${icon("bad")} ${requested.name} cannot be shown: ${requested.trouble}.</p>` : nothing}
    ${list.length ? library(list, state, actions, moment, changed) : intro}`);
}

/** The search, and the table of what it finds. @param {any[]} list @param {State} state @param {Actions} actions @param {Moment} moment @param {() => void} changed */
function library(list, state, actions, moment, changed) {
  const asked = lessons.of("/lessons", changed, () => source().lessons());
  const all = items(list, asked.state === "ready" ? asked.value : [], moment.runs);
  const depends = [list, asked.value, moment.runs, moment.place, state.ui.armed, actions.off, ...Object.values(wanted)];
  return html`${search(all, changed)}${guard(depends, () => table(filtered(all, wanted), state, actions, moment, changed))}`;
}

/** Scroll to a run when it begins. @param {Element | undefined} section */
const show = (section) => section && queueMicrotask(() => section.scrollIntoView({ block: "nearest" }));

/**
 * The first difference between two stories: the number of the first line with another node or text. Times are not
 * compared. Null if none differs.
 * @param {Line[]} one @param {Line[]} other
 */
export function parting(one, other) {
  for (let i = 0; i < Math.max(one.length, other.length); i += 1) {
    const [a, b] = [one[i], other[i]];
    if (a?.who !== b?.who || a?.text !== b?.text) return i;
  }
  return null;
}

/** @param {import("../library/filter.js").Item[]} list @param {State} state @param {Actions} actions @param {Moment} moment @param {() => void} changed */
function table(list, state, actions, moment, changed) {
  return html`<div class="scroll library" tabindex="0" role="region" aria-label="Outage library, scrollable"><table>
    <thead><tr><th scope="col">scenario</th><th scope="col">what went wrong, and why zabka passes</th>
      <th scope="col">fixed upstream in</th><th scope="col">bug</th><td></td></tr></thead>
    <tbody>${list.map((item) => (item.kind === "scenario" ? row(item.of, state, actions, moment, changed) : otherRow(item, moment)))}</tbody></table></div>`;
}

/** @param {any} s a scenario @param {State} state @param {Actions} actions @param {Moment} moment @param {() => void} changed */
function row(s, state, actions, moment, changed) {
  return html`<tr aria-label="Scenario ${s.name}">
      <th scope="row"><span class="name">${s.name}</span><span class="facts">${s.running_obstacle === null ? "also runs on this cluster" : s.live ? "runs live on another cluster" : "simulated only"}</span>${subjects(s.subjects)}</th>
      <td><b>${s.title}</b><span class="why">${s.hypothesis}</span></td>
      <td>${s.fixed}</td><td>${s.outage ? bug(s.outage.settings) : nothing}</td>
      <td class="n"><button type="button" class="small" aria-label="Play ${s.name}" title=${curl(requests.play(s.name))} ?disabled=${!actions.allows(requests.play(s.name))}
        @click=${() => void playAndOpen(s.name, actions, moment, changed)}>Play</button>
        ${live(s, state, actions, moment, changed)}</td></tr>`;
}

/** The settings that cause the outage. @param {Record<string, string>} settings */
function bug(settings) {
  const set = Object.entries(settings);
  if (set.length === 0) return html`<span class="quiet">operator action</span>`;
  const each = set.flatMap(([key, value]) => (key === "zabka.historical" ? value.split(",") : [`${key}=${value}`]));
  return each.map((text) => html`<span class="override">${text}</span> `);
}

/** @param {any[]} list @param {any} run */
function runView(list, run) {
  const { settings = {}, label = "with its bug" } = list.find((s) => s.name === run.scenario)?.outage ?? {};
  const parts = run.outage ? parting(run.story, run.outage.story) : null;
  return html`<section class="run" ${ref(show)} aria-label="Run of ${run.scenario}" aria-busy=${run.state !== "ended"}>
    <header><h3>${run.scenario}</h3>${verdict(run)}
      ${run.virtual_ms === null ? nothing : html`<span class="sum">${count(Math.round(run.virtual_ms / 1000))} s ${run.live ? "on this cluster" : html`of virtual time, simulated in ${count(run.took_ms)} ms`}</span>`}
      ${parts === null ? nothing : html`<a href="#first-difference">first difference at ${partsAt(run, parts)} s</a>`}</header>
    ${run.error ? html`<p class="bad">${run.error}</p>` : nothing}${problems(run.problems)}
    ${run.story.length ? copyable(run.replay, "the command that replays it") : nothing}
    <div class="stories">${run.story.length ? html`<div>${story("zabka as it is", run.story, parts, parts !== null && parts < run.story.length)}</div>` : nothing}
    ${run.outage ? html`<div class="outage"><h4>${icon("warn")} With ${bug(settings)}</h4>
      ${problems(run.outage.problems)}${story(label[0].toUpperCase() + label.slice(1), run.outage.story, parts, parts !== null && parts >= run.story.length)}</div>` : nothing}</div>
  </section>`;
}

/** @param {any} run @param {number} parts */
const partsAt = (run, parts) => ((run.story[parts] ?? run.outage.story[parts]).at_ms / 1000).toFixed(3);

/** @param {any} run */
function verdict(run) {
  if (run.state !== "ended") return badge("looking", run.state, "looking");
  if (run.verdict === null) return badge("bad", "did not run", "bad");
  return run.as_expected ? badge("ok", "passed", "leading") : badge("bad", "failed", "bad");
}

/** @param {string[]} found */
function problems(found) {
  return found.length ? html`<ul class="problems">${found.map((problem) => html`<li>${icon("bad")} ${problem}</li>`)}</ul>` : nothing;
}

/**
 * @param {string} name @param {Line[]} lines @param {number | null} parts the first line that differs from the other story
 * @param {boolean} first whether the link leads to that line here, and not in the other story
 */
function story(name, lines, parts, first) {
  return html`<details open><summary>${name}: ${plural(lines.length, "line")}</summary>
    <ol class="story" aria-label="Story: ${name}">${lines.map((line, i) => html`<li id=${i === parts && first ? "first-difference" : nothing} class="${line.who === "script" ? "step" : ""} ${i === parts ? "parts" : ""}">
      <time>${(line.at_ms / 1000).toFixed(3)} s</time><b>${line.who === "script" ? "" : line.who}</b><span>${line.text}${i === parts
      ? html` ${badge("warn", "first difference", "warn")}` : nothing}</span></li>`)}
      ${parts !== null && parts >= lines.length ? html`<li class="parts"><span>${badge("warn", "first difference: this story ends here", "warn")}</span></li>` : nothing}</ol></details>`;
}
