// The menu of the shown run: download it as a file, and open a journal or an exported run. Files can also be dropped.

import { html, nothing } from "lit-html";

import { offer, takeJson } from "../files.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";
import { closed, placed } from "./menu.js";

/**
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../actions.js").Actions} Actions
 */

/** @param {Moment} moment @param {Actions} actions */
export function runMenu(moment, actions) {
  const chosen = (/** @type {Event} */ event) => {
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    const [file] = input.files ?? [];
    input.value = "";
    if (file) void open(file, moment, actions);
  };
  const choose = (/** @type {Event} */ event) => {
    /** @type {HTMLElement} */ (event.currentTarget).parentElement?.querySelector("input")?.click();
  };
  return html`<button type="button" class="small more" popovertarget="menu-run" aria-label="More on this run" title="Download or open a run">⋯</button>
    <div id="menu-run" popover class="menu" role="group" aria-label="More on this run" @beforetoggle=${placed} @click=${closed}>
      ${source().live ? html`<button type="button" class="small" @click=${() => void download(moment, false)}>Download this run</button>
        <button type="button" class="small" @click=${() => void download(moment, true)}>Download the visible time range</button>
        <button type="button" class="small" title="Chrome trace JSON" @click=${() => void download(moment, true, "perfetto")}>Download the time range for Perfetto</button>
        <button type="button" class="small" title="a log with vector clocks" @click=${() => void download(moment, true, "shiviz")}>Download the time range for ShiViz</button>` : nothing}
      <button type="button" class="small" @click=${choose}>Open a journal or a run…</button>
      <input type="file" accept=".jsonl,.html,.json" hidden aria-label="Open a journal or a run" @change=${chosen}></div>`;
}

/** Save the run as one file. @param {Moment} moment @param {boolean} part only the visible time @param {"html" | "perfetto" | "shiviz"} format */
async function download(moment, part, format = "html") {
  const { from_us, to_us } = moment.timeline.window();
  const { run } = moment.current();
  await attempt(moment, async () => {
    const file = await source().download(run, part ? { from_us: Math.max(0, Math.floor(from_us)), to_us: Math.ceil(to_us) } : null, format);
    offer(file);
  });
}

/** Show the run of a file. @param {File} file @param {Moment} moment @param {Actions} actions */
async function open(file, moment, actions) {
  await attempt(moment, async () => {
    if (await takeJson(file)) return;
    const run = await source().open(file, actions);
    await moment.readRuns();
    const found = moment.runs.find((each) => each.id === run);
    moment.go({ run, at: found?.decisive_seq ?? null, with: found?.pair ?? null, tab: "tracks" });
  });
}

/** Do something, and show on the page why it failed. @param {Moment} moment @param {() => Promise<void>} act */
async function attempt(moment, act) {
  try {
    await act();
  } catch (reason) {
    if (!(reason instanceof NoMoment)) throw reason;
    moment.report(reason.message);
  }
}

/** Open files that are dropped anywhere on the page. @param {Moment} moment @param {Actions} actions */
export function takeDrops(moment, actions) {
  addEventListener("dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    const [file] = event.dataTransfer?.files ?? [];
    if (!file) return;
    event.preventDefault();
    void open(file, moment, actions);
  });
}
