// Ties it together: what arrives changes the one state; the state is drawn at most once a frame.

import { render } from "lit-html";

import { Actions } from "./actions.js";
import { announcement, GATHERED_MS, heard } from "./announcer.js";
import { model } from "./model.js";
import { isProgress } from "./sentences.js";
import { newState, takeAnswer, takeEntry, takeHistory, takeSnapshot } from "./store.js";
import { follow, historyUpTo, poll } from "./stream.js";
import { page } from "./views/page.js";

const CLOCK_MS = 250;
const SENTENCES = "/web/sentences.json";

const state = newState();
const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const announcements = /** @type {HTMLElement} */ (document.getElementById("announcements"));
root.textContent = "";
let scheduled = false;
/** @type {import("./fold.js").Entry[]} */
let toSay = [];

function draw() {
  scheduled = false;
  const shown = model(state, Date.now());
  render(page(state, shown, actions, changed), root);
  const controller = shown.ensemble.id < 0 ? "no controller" : `broker ${shown.ensemble.id}`;
  document.title = `${shown.ensemble.epoch}: ${controller} · zabka`;
}

/** Speak of an event, together with what else happens just then. @param {import("./fold.js").Entry} entry */
function announce(entry) {
  if (!heard(state.sentences, entry)) return;
  toSay.push(entry);
  if (toSay.length > 1) return;
  setTimeout(() => {
    announcements.textContent = announcement(state.sentences, toSay, state.cluster);
    toSay = [];
  }, GATHERED_MS);
}

function changed() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(draw);
}

const refresh = poll(
  (cluster, wallMs) => {
    takeAnswer(state, cluster, Date.now(), wallMs);
    changed();
  },
  (problem) => {
    state.poll_problem = problem;
    changed();
  },
);
const actions = new Actions(state, changed, refresh);

/** Read the table of sentences; without it events are told by their fields, and none is spoken. */
async function readSentences() {
  const answer = await fetch(SENTENCES);
  if (answer.ok) state.sentences = await answer.json();
}

// First the table, which says how each event of the stream is to be kept and spoken.
void readSentences().catch(() => undefined).then(() => {
  follow({
    link(link) {
      state.link = link;
      changed();
    },
    snapshot(cluster, seq) {
      takeSnapshot(state, cluster, seq);
      changed();
      void historyUpTo(seq, (entry) => !isProgress(state.sentences, entry)).then((found) => {
        takeHistory(state, found);
        changed();
      });
    },
    entry(entry) {
      const follows = takeEntry(state, entry);
      if (follows) announce(entry);
      changed();
      return follows;
    },
  });
});

setInterval(() => document.hidden || changed(), CLOCK_MS);
