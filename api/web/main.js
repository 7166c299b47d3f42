// Connects everything: data that arrives changes the state; the state is drawn at most once a frame.

import { render } from "lit-html";

import { Actions } from "./actions.js";
import { announcement, GATHERED_MS, isAnnounced } from "./announcer.js";
import { takes } from "./files.js";
import { Lecture } from "./lecture/lecture.js";
import { model } from "./model.js";
import { isProgress, progressTypes } from "./sentences.js";
import { EmbeddedSource } from "./source/embedded.js";
import { source, use } from "./source/source.js";
import { takesScripts } from "./scripts/panel.js";
import { CHATTER_MAX, inOrder, newState, takeAnswer, takeChatter, takeEntry, takeHistory, takeSnapshot } from "./store.js";
import { follow, historyUpTo, poll } from "./stream.js";
import { TABS, tabOf } from "./tabs.js";
import { listen } from "./time/keys.js";
import { Moment } from "./time/moment.js";
import { Player } from "./time/player.js";
import { forkable } from "./time/run.js";
import { asOf } from "./time/then.js";
import { theStage } from "./tracks/tab.js";
import { page } from "./views/page.js";
import { takeDrops } from "./views/run_menu.js";

const CLOCK_MS = 500;
// Drawing takes at most a quarter of the main thread's time, however much there is to draw.
const REST = 3;
const LIBRARY_AFTER_MS = 1500;
const HISTORY_MAX = 400;

// An exported page contains its runs.
const runs = document.getElementById("runs");
if (runs !== null) use(await EmbeddedSource.unpack(runs.textContent ?? ""));

const state = newState();
const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const announcements = /** @type {HTMLElement} */ (document.getElementById("announcements"));
root.textContent = "";
let scheduled = false;
let restsUntil = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let resting;
let frame = 0;
/** @type {import("./fold.js").Entry[]} */
let toSay = [];

function draw() {
  scheduled = false;
  // A recorded run has no live state that could be shown until its first moment is loaded.
  if (!source().live && moment.past === null) return;
  const began = performance.now();
  const current = moment.current();
  const of = current.live ? state : asOf(state, current);
  const shown = model(of, current.live ? Date.now() : current.at_us / 1000);
  actions.off = !source().live ? "recorded" : shown.silent_ms !== null ? "silent" : moment.live ? "" : "past";
  lecture.follow();
  render(page(of, shown, actions, moment, player, changed, readChatter, toggle, lecture), root);
  if (moment.anchor !== null) bringIntoSight(moment.anchor);
  const controller = shown.ensemble.id < 0 ? "no controller" : `broker ${shown.ensemble.id}`;
  document.title = `${shown.ensemble.epoch}: ${controller}${shown.ensemble.stale ? ", last known" : ""} · zabka`;
  const ended = performance.now();
  restsUntil = ended + REST * (ended - began);
}

/** The moment that is shown, for the tests. */
export const theMoment = () => moment;

/** @param {"keys" | "projector" | "drawer" | "offsets"} what */
function toggle(what) {
  state.ui[what] = !state.ui[what];
  if (what === "projector") {
    state.ui.drawer = false;
    document.documentElement.classList.toggle("projector", state.ui.projector);
    theStage()?.recolor();
  }
  changed();
}

/** Go to the target of a link within the page, as the browser would have if the target had existed. @param {string} id */
function bringIntoSight(id) {
  const found = document.getElementById(id);
  if (found === null) return;
  moment.anchor = null;
  found.scrollIntoView();
  found.focus({ preventScroll: true });
}

/** Announce an event, together with other events of the same time. @param {import("./fold.js").Entry} entry */
function announce(entry) {
  if (!isAnnounced(state.sentences, entry)) return;
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
  const rest = restsUntil - performance.now();
  const ask = () => {
    frame = requestAnimationFrame(draw);
  };
  if (rest <= 0) ask();
  else resting = setTimeout(ask, rest);
}

/** Draw the result of a user's action in the next frame, without the usual pause. */
function shown() {
  clearTimeout(resting);
  restsUntil = 0;
  scheduled = true;
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(draw);
}

/** Fetch the progress events, which the list of events leaves out by default. */
async function readChatter() {
  if (!source().live) return;
  const begun = state.cluster;
  takeChatter(state, await historyUpTo(begun.seq, CHATTER_MAX, []), begun);
  changed();
}

const refresh = !source().live ? () => undefined : poll(
  (cluster, wallMs, askedMs) => {
    takeAnswer(state, cluster, Date.now(), wallMs, askedMs);
    void actions.readLiveRuns();
    changed();
  },
  (problem) => {
    state.poll_problem = problem;
    changed();
  },
);
const actions = new Actions(state, changed, refresh);
const moment = new Moment(() => state.sentences, {
  cluster: () => state.cluster,
  known: () => state.known,
  now_us: () => (Date.now() - state.skew_ms) * 1000,
}, changed, shown, tabOf, (scenario, seed) => source().play(scenario, seed, actions));
const player = new Player(moment, changed);
const lecture = new Lecture(moment, actions, shown, (large) => large !== state.ui.projector && toggle("projector"));
takes((content, name) => lecture.take(content, name));
takesScripts(moment);
listen(moment, player, {
  "+": () => moment.timeline.zoom(0.5),
  "-": () => moment.timeline.zoom(2),
  0: () => moment.timeline.fit(),
  "?": () => toggle("keys"),
  p: () => toggle("projector"),
  r: () => toggle("drawer"),
  o: () => toggle("offsets"),
  l: () => lecture.toggle(),
  ...Object.fromEntries(TABS.map(({ name }, i) => [String(i + 1), () => moment.go({ tab: name })])),
});

takeDrops(moment, actions);
moment.subscribe(({ run, live, info }) => {
  if (source().live && !live && forkable(info)) void actions.findCourse(run);
});

/** Read the table of sentences. Without it, events are shown by their fields, and none is announced. */
async function readSentences() {
  state.sentences = await source().sentences();
}

// Read the table first: it defines how each event of the stream is stored and announced.
void readSentences().catch(() => undefined).then(() => {
  if (!source().live) {
    changed();
    return;
  }
  // The first listing of the library takes the API seconds, so request it before the user opens it.
  setTimeout(() => void actions.loadScenarios(), LIBRARY_AFTER_MS);
  follow({
    link(link) {
      state.link = link;
      changed();
    },
    snapshot(cluster, seq) {
      state.heard_ms = Date.now();
      takeSnapshot(state, cluster, seq);
      const begun = state.cluster;
      moment.forgetLive();
      changed();
      // The rates of producers are drawn from their progress events, one per second: read the last minute now.
      const progress = progressTypes(state.sentences);
      const hidden = progress.filter((type) => type !== "workload_progressed");
      // Separately, because in ten minutes they would displace all other events.
      void Promise.all([progress, hidden].map((types) => historyUpTo(seq, HISTORY_MAX, types))).then((found) => {
        takeHistory(state, inOrder(found.flat()), begun);
        if (state.ui.progress) void readChatter();
        changed();
      });
    },
    entry(entry) {
      state.heard_ms = Date.now();
      const follows = takeEntry(state, entry);
      if (follows) {
        moment.timeline.take(entry);
        announce(entry);
      }
      // The progress of logs is drawn with the clock; ten brokers report it ten times a second.
      if (!follows || !isProgress(state.sentences, entry)) changed();
      return follows;
    },
  });
});

setInterval(() => document.hidden || changed(), CLOCK_MS);
