// Ties it together: what arrives changes the one state; the state is drawn at most once a frame.

import { render } from "lit-html";

import { Actions } from "./actions.js";
import { announcement, model } from "./model.js";
import { CHATTER, newState, takeAnswer, takeEntry, takeHistory, takeSnapshot } from "./store.js";
import { follow, historyUpTo, poll } from "./stream.js";
import { page } from "./views/page.js";

const CLOCK_MS = 250;
const SENTENCES = "/web/sentences.json";

const state = newState();
const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const announcements = /** @type {HTMLElement} */ (document.getElementById("announcements"));
root.textContent = "";
let scheduled = false;
/** @type {string[]} */
let toSay = [];

function draw() {
  scheduled = false;
  const shown = model(state, Date.now());
  render(page(state, shown, actions, changed), root);
  const controller = shown.ensemble.id < 0 ? "no controller" : `broker ${shown.ensemble.id}`;
  document.title = `${shown.ensemble.epoch}: ${controller} · zabka`;
  if (toSay.length) announcements.textContent = toSay.slice(-3).join(" ");
  toSay = [];
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

follow({
  link(link) {
    state.link = link;
    changed();
  },
  snapshot(cluster, seq) {
    takeSnapshot(state, cluster, seq);
    changed();
    void historyUpTo(seq, (entry) => !CHATTER.has(entry.type)).then((found) => {
      takeHistory(state, found);
      changed();
    });
  },
  entry(entry) {
    const follows = takeEntry(state, entry);
    const said = follows ? announcement(entry) : "";
    if (said) toSay.push(said);
    changed();
    return follows;
  },
});

// Until they are here, and should they never come, events are told by their fields.
void fetch(SENTENCES).then(async (answer) => {
  if (answer.ok) state.sentences = await answer.json();
  changed();
});

setInterval(() => document.hidden || changed(), CLOCK_MS);
