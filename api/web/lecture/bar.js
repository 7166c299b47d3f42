// The bar of lecture mode: the play, its notes, and its buttons; and the button that starts a lecture.

import { html, nothing } from "lit-html";

import { curl } from "../actions.js";
import { source } from "../source/source.js";
import { icon } from "../views/parts.js";
import { editor } from "./editor.js";

/** @typedef {import("./lecture.js").Lecture} Lecture */

/** @param {Lecture} lecture */
export function startButton(lecture) {
  if (lecture.at !== null) return nothing;
  return html`<button type="button" class="small" title="A list of plays with notes, in large type" @click=${() => lecture.toggle()}>Lecture <kbd aria-hidden="true">l</kbd></button>`;
}

/** @param {Lecture} lecture */
export function lectureBar(lecture) {
  const { at, play, file } = lecture;
  if (at === null || play === null) return nothing;
  const next = file.plays[at + 1];
  const toggleNotes = () => {
    lecture.notes = !lecture.notes;
    lecture.changed();
  };
  const edit = () => {
    lecture.editing = true;
    lecture.changed();
  };
  return html`<section class="lecture" aria-label="Lecture">
    ${lecture.reset.progress()}
    ${lecture.trouble ? html`<p class="bad" role="alert">${icon("bad")} ${play.title} cannot be shown: ${lecture.trouble}.</p>` : nothing}
    ${lecture.loading ? html`<p class="quiet" role="status">${icon("looking")} ${lecture.loading} runs in a simulated world…</p>` : nothing}
    ${progress(lecture)}
    ${lecture.notes && play.notes ? html`<p class="notes" tabindex="0" aria-label="Notes">${play.notes}</p>` : nothing}
    <div class="plays"><button type="button" ?disabled=${at === 0} aria-label="Previous play" @click=${() => lecture.step(-1)}>◀ <kbd aria-hidden="true">PgUp</kbd></button>
      <h2><span class="quiet">${at + 1} of ${file.plays.length}</span> ${play.title}</h2>
      <button type="button" class="primary" ?disabled=${next === undefined} aria-label="Next play" title=${next?.title ?? "This is the last play"} @click=${() => lecture.step(1)}>Next ▶ <kbd aria-hidden="true">PgDn</kbd></button>
      ${action(lecture)}
      <span class="group end">${source().live ? lecture.reset.button(file) : nothing}
        <button type="button" aria-pressed=${lecture.notes ? "true" : "false"} @click=${toggleNotes}>Notes <kbd aria-hidden="true">n</kbd></button>
        <button type="button" title="Edit, save or open the list of plays" @click=${edit}>List</button>
        <button type="button" @click=${() => lecture.leave()}>Leave <kbd aria-hidden="true">l</kbd></button></span></div>
    ${lecture.editing ? editor(lecture) : nothing}</section>`;
}

/** The button that changes the cluster. @param {Lecture} lecture */
function action(lecture) {
  const { action: request, running, sending, actions } = lecture;
  if (request === null) return nothing;
  const off = !actions.allows(request) || sending || running !== null;
  return html`<button type="button" class="danger" ?disabled=${off} title=${actions.off ? actions.why : curl(request)} @click=${() => void lecture.act()}>Run on this cluster <kbd aria-hidden="true">g</kbd></button>`;
}

/** The steps of a script that runs on this cluster. @param {Lecture} lecture */
function progress(lecture) {
  const { running } = lecture;
  const last = running?.begun?.at(-1);
  if (!last) return nothing;
  return html`<p class="quiet" role="status">${icon("looking")} ${running.scenario}: step ${last.step}${running.steps ? ` of ${running.steps}` : ""}, ${last.text}</p>`;
}
