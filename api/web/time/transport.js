// The transport at the foot of the page: play, step, jump, pin, link.

import { html, nothing } from "lit-html";

import { source } from "../source/source.js";
import { SPEEDS, speedWord } from "./player.js";

/**
 * @typedef {import("./moment.js").Moment} Moment
 * @typedef {import("./moment.js").Kind} Kind
 * @typedef {import("./player.js").Player} Player
 */

/**
 * @param {Moment} moment @param {Player} player @param {import("../store.js").State} state
 * @param {(what: "keys" | "projector" | "drawer" | "offsets") => void} toggle
 */
export function transport(moment, player, state, toggle) {
  const { live, seq } = moment.current();
  const { projector, drawer } = state.ui;
  const pinned = moment.place.pin !== null;
  const key = (/** @type {string} */ name) => html` <kbd aria-hidden="true">${name}</kbd>`;
  const next = (/** @type {Kind} */ kind, /** @type {string} */ word, /** @type {string} */ k) => html`<button type="button"
    title="Next ${word}; with Shift, or when live, the previous one" @click=${(/** @type {MouseEvent} */ e) => void moment.next(kind, e.shiftKey ? -1 : 1)}>${word}${key(k)}</button>`;
  return html`<section class="transport" aria-label="Playback">
    <span class="group"><button type="button" class="opt" aria-label="First moment" title="First stored moment (Home)" @click=${() => void moment.first()}>|◀</button>
      <button type="button" aria-label="Previous event" title="Previous event" @click=${() => void moment.step(-1)}>◀${key("←")}</button>
      <button type="button" class="play ${player.playing ? "primary" : ""}" aria-pressed=${player.playing ? "true" : "false"} @click=${() => player.toggle()}>${player.playing ? "❚❚ pause" : "▶ play"}${key("space")}</button>
      <button type="button" aria-label="Next event" title="Next event" ?disabled=${live} @click=${() => void moment.step(1)}>▶${key("→")}</button></span>
    <span class="group opt"><label for="speed">speed</label><select id="speed" @change=${(/** @type {Event} */ e) => {
      player.speed = Number(/** @type {HTMLSelectElement} */ (e.target).value);
    }}>${SPEEDS.map((speed) => html`<option value=${speed} ?selected=${speed === player.speed}>${speedWord(speed)}</option>`)}</select></span>
    <span class="group opt"><span class="quiet">next</span>${next("election", "election", "e")}${next("isr", "ISR change", "i")}${next("loss", "loss", "x")}</span>
    <span class="group opt"><button type="button" aria-pressed=${pinned ? "true" : "false"} title="Pin this moment to see what changed since" @click=${() => moment.pin()}>${pinned ? "Unpin A" : "Pin A"}${key("a")}</button>
      ${pinned ? html`<button type="button" title="Switch between the pinned moment and this one" @click=${() => moment.swap()}>A ↔ here${key("c")}</button>` : nothing}</span>
    <span class="group end opt"><button type="button" title="Copy a link to this moment" @click=${copyLink(moment)}>Copy link <span class="mono">#at=${seq}</span></button>
      ${projector ? html`<button type="button" aria-pressed=${drawer ? "true" : "false"} @click=${() => toggle("drawer")}>State${key("r")}</button>` : nothing}
      <button type="button" aria-pressed=${projector ? "true" : "false"} title="Large view with the tracks only" @click=${() => toggle("projector")}>Projector${key("p")}</button>
      <button type="button" title="Keyboard shortcuts" @click=${() => toggle("keys")}>Keys${key("?")}</button></span>
    ${live || !source().live ? nothing : html`<button type="button" class="end-live" @click=${() => moment.toEnd()}>Live${key("End")}</button>`}
  </section>`;
}

/** @param {Moment} moment */
function copyLink(moment) {
  return async (/** @type {Event} */ event) => {
    const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
    const done = await navigator.clipboard?.writeText(moment.link()).then(() => true, () => false);
    // Without a clipboard (plain HTTP) the address is the link.
    if (!done) moment.go({ at: moment.current().seq });
    button.dataset.done = "yes";
    setTimeout(() => delete button.dataset.done, 1500);
  };
}
