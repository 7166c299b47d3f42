// Thirteen outages, prediction first: a question, a prediction, the run, and the outcome with its rule.

import { html, nothing } from "lit-html";

import { hash } from "../time/hash.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";
import { icon, panel, submit } from "../views/parts.js";
import { Answers } from "../why/answers.js";
import { ruled } from "../why/rule.js";
import { NotPlayed } from "./play.js";
import { notePrediction, predictions } from "./predictions.js";

/**
 * @typedef {{name: string, title: string, scenario: string, question: string, answers: string[], with_bug: boolean, page?: string}} Lesson  `page` is the
 *   file of a lesson that is not in this one.
 * @typedef {{run: string, pair: string | null, seq: number, right: number, look_at: string, explanation: string,
 *   chain: import("../why/panel.js").Step[], beginning: {seq: number, told: string} | null}} Revealed
 * @typedef {{chosen: number | null, playing: boolean, trouble: string, revealed: Revealed | null}} Stand
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../actions.js").Actions} Actions
 */

const answers = new Answers();
/** @type {Record<string, Stand>} How each lesson stands, since the page was loaded. */
const stands = {};

/** @type {import("../tabs.js").View} */
export function view(_state, _m, moment, changed, actions) {
  const asked = answers.of("/lessons", changed, () => source().lessons());
  if (asked.state === "loading") return panel("lessons", "Lessons", nothing, html`<p class="quiet">Loading…</p>`);
  if (asked.state === "failed") return panel("lessons", "Lessons", nothing, html`<p class="quiet">${icon("empty")} Cannot read the lessons: ${asked.message}.</p>`);
  /** @type {Lesson[]} */
  const lessons = asked.value;
  const met = predictions();
  const right = Object.values(met).filter((prediction) => prediction.chosen === prediction.right).length;
  const aside = html`<span class="sum">${Object.keys(met).length ? html`<b>${right}</b> of ${Object.keys(met).length} right` : "predict, then watch"}</span>`;
  const lesson = lessons.find((each) => each.name === moment.place.lesson) ?? lessons[0];
  if (lesson === undefined) return panel("lessons", "Lessons", nothing, html`<p class="quiet">This file has no lessons.</p>`);
  return panel("lessons", "Lessons", aside, html`<div class="lessons">
    <nav aria-label="Lessons"><ol>${lessons.map((each) => entry(each, lesson, met[each.name], moment))}</ol></nav>
    ${lessonView(lesson, lessons, moment, changed, actions)}</div>`);
}

/** @param {Lesson} lesson @param {Moment} moment */
const address = ({ page, name }, moment) => page ?? hash({ ...moment.place, tab: "lessons", lesson: name });

/** @param {Lesson} each @param {Lesson} shown @param {import("./predictions.js").Prediction | undefined} met @param {Moment} moment */
function entry(each, shown, met, moment) {
  const missed = met !== undefined && met.chosen !== met.right;
  return html`<li class=${missed ? "missed" : ""}><a href=${address(each, moment)} aria-current=${each === shown ? "page" : nothing}>
    <span>${each.title}</span>${met === undefined ? nothing : html`<span>${icon(missed ? "warn" : "ok")}<span class="unseen">${missed ? "wrong prediction" : "right prediction"}</span></span>`}</a></li>`;
}

/** @param {Lesson} lesson @param {Lesson[]} lessons @param {Moment} moment @param {() => void} changed @param {Actions} actions */
function lessonView(lesson, lessons, moment, changed, actions) {
  const stand = (stands[lesson.name] ??= { chosen: null, playing: false, trouble: "", revealed: null });
  const predict = submit(() => void play(lesson, stand, moment, changed, actions));
  const choose = (/** @type {number} */ i) => {
    stand.chosen = i;
    changed();
  };
  const open = stand.revealed === null && !stand.playing;
  return html`<article class="lesson" aria-labelledby="lesson-title">
    <h3 id="lesson-title">${lesson.title}</h3><p class="question">${lesson.question}</p>
    <form aria-label="Prediction" @submit=${predict}><fieldset ?disabled=${!open}><legend>What do you predict?</legend>
      ${lesson.answers.map((text, i) => html`<label class="choice ${verdictClass(stand, i)}">
        <input type="radio" name="answer" value=${i} required .checked=${stand.chosen === i} @change=${() => choose(i)}><span>${text}</span>
        ${stand.revealed?.right === i ? html`<span>${icon("ok")}<span class="unseen">correct</span></span>` : nothing}
        ${verdictClass(stand, i) === "wrong" ? html`<span class="warn">${icon("warn")}<span class="unseen">your prediction, not correct</span></span>` : nothing}</label>`)}</fieldset>
      <p class="row">${stand.revealed === null
    ? html`<button class="primary" ?disabled=${stand.chosen === null || stand.playing || actions.off === "silent"}>${stand.playing ? "Running…" : "Predict and run"}</button>
        <span class="quiet">${source().live ? html`runs <code>${lesson.scenario}</code> in a simulated world and does not touch this cluster`
      : html`shows a recorded run of <code>${lesson.scenario}</code>`}</span>` : nothing}</p></form>
    ${stand.trouble ? html`<p class="bad" role="alert">${icon("bad")} The scenario could not run: ${stand.trouble}.</p>` : nothing}
    <div aria-live="polite">${stand.revealed === null ? nothing : reveal(lesson, lessons, stand, stand.revealed, moment, changed)}</div></article>`;
}

/** @param {Stand} stand @param {number} i */
function verdictClass(stand, i) {
  if (stand.revealed === null) return "";
  if (stand.revealed.right === i) return "right";
  return stand.chosen === i ? "wrong" : "";
}

/** @param {Lesson} lesson @param {Stand} stand @param {Moment} moment @param {() => void} changed @param {Actions} actions */
async function play(lesson, stand, moment, changed, actions) {
  if (stand.chosen === null || stand.playing) return;
  Object.assign(stand, { playing: true, trouble: "" });
  changed();
  try {
    const kept = await source().play(lesson.scenario, null, actions);
    /** @type {Revealed} */
    const revealed = await source().answer(lesson.name, kept.run);
    stand.revealed = revealed;
    notePrediction(lesson.name, { chosen: stand.chosen, right: revealed.right });
    await moment.readRuns();
    // Do not move users who have chosen another tab meanwhile.
    if (moment.place.tab === "lessons") moment.go({ run: revealed.run, at: revealed.seq, with: revealed.pair, lesson: lesson.name });
  } catch (reason) {
    if (!(reason instanceof NotPlayed || reason instanceof NoMoment)) throw reason;
    stand.trouble = reason.message;
  }
  stand.playing = false;
  changed();
}

/** @param {Lesson} lesson @param {Lesson[]} lessons @param {Stand} stand @param {Revealed} revealed @param {Moment} moment @param {() => void} changed */
function reveal(lesson, lessons, stand, revealed, moment, changed) {
  const hit = stand.chosen === revealed.right;
  const there = { ...moment.place, run: revealed.run, at: revealed.seq, with: revealed.pair, lesson: lesson.name };
  const next = lessons[lessons.indexOf(lesson) + 1];
  const again = () => {
    Object.assign(stand, { chosen: null, revealed: null });
    changed();
  };
  return html`<section class="reveal" aria-label="Result">
    <p class="verdict ${hit ? "right" : "wrong"}">${icon(hit ? "ok" : "warn")} ${hit ? "Your prediction was right" : "Your prediction was wrong"}</p>
    ${hit ? nothing : html`<p><b>${lesson.answers[revealed.right]}</b></p>`}
    <p class="explained">${revealed.explanation}</p>
    <p class="row"><a class="button primary" href=${hash({ ...there, tab: "tracks" })}>Show the moment in the tracks</a>
      ${revealed.pair === null ? nothing : html`<a class="button" href=${hash({ ...there, tab: "compare" })}>Side by side</a>`}
      <button type="button" @click=${again}>Try again</button>
      ${next ? html`<a class="button" href=${address(next, moment)}>Next lesson</a>` : nothing}</p>
    <p><b>Look at:</b> ${revealed.look_at}</p>
    <div class="rules"><h3>The rules that applied, from the effect back to its cause</h3>
      ${rules(revealed).map(({ step, rule }) => html`<div><p><b>${step.event.node}</b> ${step.told}</p>${ruled(rule)}</div>`)}
      ${revealed.beginning ? html`<p class="quiet">First cause: <a href=${hash({ ...there, tab: "tracks", at: revealed.beginning.seq })}>${revealed.beginning.told}</a></p>` : nothing}</div>
  </section>`;
}

/** Each rule of the chain once, with its first step. @param {Revealed} revealed */
function rules(revealed) {
  const met = new Set();
  return revealed.chain.flatMap((step) => {
    if (!step.rule || met.has(step.rule.name)) return [];
    met.add(step.rule.name);
    return [{ step, rule: step.rule }];
  });
}
