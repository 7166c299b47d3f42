// Small parts that the panels share: icons, a section, a button that shows its curl command, a select.

import { html, nothing, svg } from "lit-html";

import { curl } from "../actions.js";
import { source } from "../source/source.js";

/** @typedef {import("lit-html").TemplateResult | typeof nothing | string} View */

/** Shapes next to words: no state is shown by its colour alone. */
const SHAPES = {
  running: svg`<circle cx="6" cy="6" r="4" class="fill"/>`,
  paused: svg`<path d="M3 2h2v8H3zM7 2h2v8H7z" class="fill"/>`,
  down: svg`<path d="M2.5 2.5l7 7m0-7l-7 7" class="line"/>`,
  crown: svg`<path d="M1.5 9.5h9l1-6-3 2.2L6 1.5 3.5 5.7l-3-2.2z" class="fill"/>`,
  follower: svg`<circle cx="6" cy="6" r="3.6" class="line"/><circle cx="6" cy="6" r="1.2" class="fill"/>`,
  looking: svg`<circle cx="6" cy="6" r="4" class="line dashed"/>`,
  observer: svg`<path d="M1 6q5-6 10 0q-5 6-10 0z" class="line"/><circle cx="6" cy="6" r="1.4" class="fill"/>`,
  ok: svg`<path d="M2 6.5l2.8 2.8L10 3" class="line"/>`,
  warn: svg`<path d="M6 1.2l5.2 9.3H.8z" class="line"/><path d="M6 4.6v2.8m0 1.2v.9" class="line"/>`,
  bad: svg`<path d="M3.8.8h4.4l3 3v4.4l-3 3H3.8l-3-3V3.8z" class="line"/><path d="M6 3.4v3.4m0 1.1v.9" class="line"/>`,
  hourglass: svg`<path d="M2.5 1.5h7l-7 9h7z" class="line"/>`,
  shield: svg`<path d="M2 1.5h8v5L6 10.5 2 6.5z" class="line"/>`,
  empty: svg`<circle cx="6" cy="6" r="4" class="line"/>`,
};

/** @param {keyof typeof SHAPES} name */
export function icon(name) {
  return html`<svg class="icon" viewBox="0 0 12 12" aria-hidden="true">${SHAPES[name]}</svg>`;
}

/** A word with its shape. @param {keyof typeof SHAPES} shape @param {unknown} text @param {string} tone */
export function badge(shape, text, tone = "") {
  return html`<span class="badge ${tone}">${icon(shape)}${text}</span>`;
}

/**
 * A panel with a heading that is a link target.
 * @param {string} id @param {View} title @param {View} aside @param {View} body
 */
export function panel(id, title, aside, body) {
  return html`<section class="panel" id=${id} tabindex="-1" aria-labelledby="${id}-title">
    <header><h2 id="${id}-title">${title}</h2>${aside}</header>
    ${body}
  </section>`;
}

/**
 * Draw a part of the page. If that fails, draw the reason instead, so that the other parts are still updated.
 * @param {string} name @param {() => unknown} part
 */
export function attempt(name, part) {
  try {
    return part();
  } catch (reason) {
    console.error(reason);
    return html`<p class="panel bad" role="alert">${icon("bad")} Cannot draw ${name}: ${reason instanceof Error ? reason.message : String(reason)}</p>`;
  }
}

/**
 * A button that sends a request; its title is the curl command. Recorded runs have none.
 * @param {import("../actions.js").Actions} actions @param {import("../actions.js").Request} request
 * @param {string} text @param {{name?: string, tone?: string, disabled?: boolean}} options
 */
export function send(actions, request, text, { name = text, tone = "", disabled = false } = {}) {
  if (!source().live) return nothing;
  // Disabling a focused button would drop the focus, and keyboard users would be at the top of the page.
  const focused = document.activeElement?.getAttribute("aria-label") === name;
  const off = disabled || !actions.allows(request);
  return html`<button type="button" class="small ${tone}" aria-label=${name} title=${actions.off && off ? actions.why : curl(request)}
    ?disabled=${off && !focused} aria-disabled=${off ? "true" : nothing}
    @click=${() => off || void actions.send(request)}>${text}</button>`;
}

/**
 * The label is next to the select, not around it: otherwise its text would contain every choice.
 * @param {string} scope makes the id unique on the page
 * @param {string} name @param {string} label @param {(string | {value: string, text: string})[]} choices
 * @param {string} chosen @param {((value: string) => void) | null} onChange
 */
export function select(scope, name, label, choices, chosen = "", onChange = null) {
  const change = (/** @type {Event} */ e) => onChange?.(/** @type {HTMLSelectElement} */ (e.target).value);
  const id = `${scope}-${name}`;
  return html`<div class="field"><label for=${id}>${label}</label><select id=${id} name=${name} @change=${change}>
    ${choices.map((choice) => {
      const { value, text } = typeof choice === "string" ? { value: choice, text: choice } : choice;
      return html`<option value=${value} ?selected=${value === chosen}>${text}</option>`;
    })}
  </select></div>`;
}

/**
 * Handles a form's submission with its fields as strings.
 * @param {(fields: Record<string, string>, form: HTMLFormElement) => void} take
 */
export function submit(take) {
  return (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = /** @type {HTMLFormElement} */ (event.target);
    /** @type {Record<string, string>} */
    const fields = {};
    for (const [name, value] of new FormData(form)) fields[name] = String(value).trim();
    take(fields, form);
  };
}

/** A line of text with a button that copies it. @param {string} text @param {string} what */
export function copyable(text, what) {
  const copy = async (/** @type {Event} */ event) => {
    const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
    const done = await navigator.clipboard.writeText(text).then(() => true, () => selectText(button));
    button.dataset.done = done ? "copied" : "selected";
    setTimeout(() => delete button.dataset.done, 1500);
  };
  return html`<span class="copyable"><code>${text}</code><button type="button" class="small copy" aria-label="Copy ${what}"
    @click=${copy}>Copy</button></span>`;
}

/** Without access to the clipboard (plain HTTP), select the text instead. @param {HTMLElement} button */
function selectText(button) {
  const code = button.previousElementSibling;
  if (code) getSelection()?.selectAllChildren(code);
  return false;
}
