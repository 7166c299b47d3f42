// The list of plays as a dialog: change titles, notes and the order, add what the page shows, save and open files.

import { html } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { ref } from "lit-html/directives/ref.js";

import { takeJson } from "../files.js";
import { NoMoment } from "../source/no_moment.js";
import { openModal } from "../views/page.js";
import { kindOf, moved } from "./file.js";

/**
 * @typedef {import("./lecture.js").Lecture} Lecture
 * @typedef {import("./file.js").Play} Play
 */

const KINDS = { lesson: "lesson", scenario: "scenario", seed: "seed", live: "on this cluster", script: "script", view: "view" };

/** @param {Lecture} lecture */
export function editor(lecture) {
  const { file } = lecture;
  const close = () => {
    lecture.editing = false;
    lecture.changed();
  };
  const title = (/** @type {Event} */ event) => lecture.change({ ...file, title: /** @type {HTMLInputElement} */ (event.target).value });
  const keep = (/** @type {"keep_topics" | "keep_groups"} */ of) => (/** @type {Event} */ event) =>
    lecture.change({ ...file, [of]: /** @type {HTMLInputElement} */ (event.target).value.split(/[\s,]+/).filter(Boolean) });
  return html`<dialog class="dialog list" aria-labelledby="list-title" ${ref(openModal)} @close=${close}>
    <h2 id="list-title">The plays of this lecture</h2>
    <p class="row"><label class="field"><span>title</span><input name="title" maxlength="100" .value=${file.title} @change=${title}></label>
      <label class="field"><span>a reset keeps topics</span><input name="keep_topics" placeholder="none" .value=${file.keep_topics.join(", ")} @change=${keep("keep_topics")}></label>
      <label class="field"><span>and groups</span><input name="keep_groups" placeholder="none" .value=${file.keep_groups.join(", ")} @change=${keep("keep_groups")}></label></p>
    <ol class="plays-list">${repeat(file.plays, (play) => play, (play, i) => entry(lecture, play, i))}</ol>
    <p class="row"><button type="button" @click=${() => lecture.addHere()}>Add what the page shows</button>
      <button type="button" @click=${() => lecture.save()}>Save as a file</button>${opener(lecture)}
      <button type="button" title="The lessons, in their order" @click=${() => lecture.restore()}>Default list</button></p>
    <form method="dialog"><button class="primary" autofocus>Close</button></form></dialog>`;
}

/** @param {Lecture} lecture @param {Play} play @param {number} i */
function entry(lecture, play, i) {
  const { file } = lecture;
  const set = (/** @type {Partial<Play>} */ to) => lecture.change({ ...file, plays: file.plays.map((each) => (each === play ? { ...each, ...to } : each)) });
  const value = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).value;
  const last = i === file.plays.length - 1;
  const kind = kindOf(play);
  const detail = kind === "view" ? play.tab ?? "tracks" : kind === "script" ? play.script.name : play[kind];
  return html`<li aria-label="Play ${i + 1}" class=${i === lecture.at ? "shown" : ""}><span class="facts">${i + 1}. ${KINDS[kind]} ${detail}${kind === "scenario" && play.seed !== undefined ? `, seed ${play.seed}` : ""}${play.at === undefined ? "" : `, event ${play.at}`}</span>
    <input aria-label="Title of play ${i + 1}" maxlength="200" .value=${play.title} @change=${(/** @type {Event} */ e) => set({ title: value(e) })}>
    <textarea aria-label="Notes of play ${i + 1}" rows="2" maxlength="5000" .value=${play.notes} @change=${(/** @type {Event} */ e) => set({ notes: value(e) })}></textarea>
    <span class="handles"><button type="button" class="small" ?disabled=${i === 0} aria-label="Move play ${i + 1} up" @click=${() => lecture.arrange(moved(file, i, i - 1))}>↑</button>
      <button type="button" class="small" ?disabled=${last} aria-label="Move play ${i + 1} down" @click=${() => lecture.arrange(moved(file, i, i + 1))}>↓</button>
      <button type="button" class="small danger" ?disabled=${file.plays.length === 1} aria-label="Remove play ${i + 1}" @click=${() => lecture.arrange(moved(file, i, null))}>Remove</button></span></li>`;
}

/** @param {Lecture} lecture */
function opener(lecture) {
  const choose = (/** @type {Event} */ event) => /** @type {HTMLElement} */ (event.currentTarget).parentElement?.querySelector("input[type=file]")?.dispatchEvent(new MouseEvent("click"));
  const chosen = (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    const [file] = input.files ?? [];
    input.value = "";
    if (file) void open(lecture, file);
  };
  return html`<button type="button" @click=${choose}>Open a file…</button><input type="file" accept=".json" hidden aria-label="Open a lecture" @change=${chosen}>`;
}

/** @param {Lecture} lecture @param {File} file */
async function open(lecture, file) {
  lecture.editing = false;
  try {
    if (!(await takeJson(file))) lecture.trouble = `${file.name} is neither a lecture nor a scenario file`;
  } catch (reason) {
    if (!(reason instanceof NoMoment)) throw reason;
    lecture.trouble = reason.message;
  }
  lecture.changed();
}
