// Lecture mode: the list of plays, the play that is shown, and its keys. The number of the play is in the address; the
// list is in the browser's storage, and in files that a lecturer saves and opens.

import { outcome, requests } from "../actions.js";
import { offer } from "../files.js";
import { interesting, NotPlayed } from "../lessons/play.js";
import { NoMoment } from "../source/no_moment.js";
import { source } from "../source/source.js";
import { liveRun } from "../store.js";
import { hash, LIVE, playedName } from "../time/hash.js";
import { isAction, isLecture, lectureOf, NoLecture, written } from "./file.js";
import { ResetButton } from "./reset.js";
import { standard } from "./standard.js";

/**
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("./file.js").Play} Play
 * @typedef {import("./file.js").LectureFile} LectureFile
 */

const KEY = "zabka.lecture";
const SEEDS = "chaos";

export class Lecture {
  /**
   * @param {Moment} moment @param {Actions} actions @param {() => void} changed
   * @param {(large: boolean) => void} enlarge switches large type on or off
   */
  constructor(moment, actions, changed, enlarge) {
    this.moment = moment;
    this.actions = actions;
    this.changed = changed;
    this.enlarge = enlarge;
    /** @type {LectureFile} */
    this.file = stored() ?? standard(source());
    this.notes = true;
    this.editing = false;
    /** What is loaded for the play; empty if nothing is. */
    this.loading = "";
    this.trouble = "";
    /** Whether the request of an action is being sent. */
    this.sending = false;
    /** How often a play was shown: a play that is shown later replaces one that still loads. */
    this.turn = 0;
    this.reset = new ResetButton(actions, changed);
    /** @type {number | null} The play that was shown last. */
    this.last = null;
    this.large = false;
    // Before the keys of the tabs and of the page: a presenter's remote sends Page Up and Page Down.
    addEventListener("keydown", (event) => this.#key(event), { capture: true });
  }

  /** The place of the play in the list; null outside lecture mode. */
  get at() {
    const { lecture } = this.moment.place;
    return lecture === null ? null : Math.min(Math.max(lecture, 1), this.file.plays.length) - 1;
  }

  /** The play that is shown. @returns {Play | null} */
  get play() {
    return this.at === null ? null : this.file.plays[this.at];
  }

  /** Show large type in lecture mode only; called for every drawing, because the address can change by itself. */
  follow() {
    const on = this.at !== null;
    if (on === this.large) return;
    this.large = on;
    this.enlarge(on);
    // A page that is opened at a play shows it; another page of the same lecture may have led here.
    if (on && this.last === null && this.at !== null) void this.show(this.at);
  }

  /** Start at the play that was shown last, or leave lecture mode. */
  toggle() {
    if (this.at !== null) this.leave();
    else void this.show(Math.min(this.last ?? 0, this.file.plays.length - 1));
  }

  leave() {
    this.editing = false;
    this.moment.go({ lecture: null });
  }

  /** @param {1 | -1} by */
  step(by) {
    if (this.at === null) return;
    const to = this.at + by;
    if (to >= 0 && to < this.file.plays.length) void this.show(to);
  }

  /** Show a play of the list. @param {number} i */
  async show(i) {
    const play = this.file.plays[i];
    const turn = (this.turn += 1);
    this.last = i;
    this.trouble = "";
    this.loading = "";
    this.reset.arm(false);
    if (this.reset.shown?.state !== "running") this.reset.close();
    const lecture = i + 1;
    const live = { run: source().live ? LIVE : this.moment.place.run, at: null, with: null };
    try {
      if (play.lesson !== undefined) await this.#lesson(play.lesson, lecture);
      else if (play.scenario !== undefined) await this.#recorded(play, play.scenario, lecture);
      else if (play.seed !== undefined) await this.#recorded(play, play.faults ?? SEEDS, lecture);
      else this.moment.go({ ...live, at: play.at ?? null, tab: play.tab ?? "tracks", lecture });
    } catch (reason) {
      if (!(reason instanceof NotPlayed || reason instanceof NoMoment)) throw reason;
      if (this.turn === turn) this.trouble = reason.message;
    }
    if (this.turn === turn) this.loading = "";
    this.changed();
  }

  /** @param {string} name @param {number} lecture */
  async #lesson(name, lecture) {
    this.moment.go({ tab: "lessons", lesson: name, lecture });
    const lesson = (await source().lessons()).find((each) => each.name === name);
    if (lesson === undefined) throw new NoMoment(`there is no lesson ${name}`);
    // The lesson is in another file, which shows the same lecture.
    if (lesson.page !== undefined) location.assign(lesson.page + hash({ ...this.moment.place, run: LIVE, at: null, with: null, tab: "lessons", lesson: name, lecture }));
  }

  /** Show the stored run of a scenario or seed, which is played if there is none. @param {Play} play @param {string} scenario @param {number} lecture */
  async #recorded(play, scenario, lecture) {
    const wanted = this.file.plays[lecture - 1];
    const seed = play.seed ?? null;
    const link = playedName({ scenario, seed, bug: play.bug ? "yes" : null });
    const known = () => this.moment.runs.find((run) => run.link === link);
    this.moment.go({ lecture });
    if (known() === undefined) {
      this.loading = seed === null ? scenario : `seed ${seed} of ${scenario}`;
      this.changed();
      await source().play(scenario, seed, this.actions);
      await this.moment.readRuns();
    }
    // The lecturer has gone on meanwhile.
    if (this.play !== wanted) return;
    const run = known();
    if (run === undefined) throw new NoMoment(`${scenario} has no run ${play.bug ? "with its bug" : "of this kind"}`);
    const at = play.at ?? (await interesting({ run: run.id, bug: null })).at;
    // The play can have another number by now.
    if (this.play === wanted) this.moment.go({ run: run.id, at, with: run.pair, tab: play.tab ?? "tracks" });
  }

  /** The request with which the play changes the cluster; null if it does not. @returns {import("../actions.js").Request | null} */
  get action() {
    const { play } = this;
    if (play === null || !isAction(play)) return null;
    return play.live === undefined ? requests.playFile(play.script, true) : requests.playLive(play.live);
  }

  /** Run the live action of the play. */
  async act() {
    const request = this.action;
    if (request === null || this.sending || this.running !== null) return;
    this.trouble = "";
    this.sending = true;
    const answer = await this.actions.send(request);
    this.sending = false;
    if (!answer?.ok) this.trouble = answer === null ? this.actions.why || "the API does not respond" : outcome(answer);
    this.changed();
  }

  /** The run on this cluster that has not ended. @returns {any} */
  get running() {
    return liveRun(this.actions.state.scenarios);
  }

  // -- the file --------------------------------------------------------------------------------------------------------

  /** Take a file that was opened or dropped. False if it is no lecture. @param {any} content @param {string} name Raises NoLecture. */
  take(content, name) {
    if (!isLecture(content)) return false;
    try {
      this.change(lectureOf(content));
    } catch (reason) {
      throw reason instanceof NoLecture ? new NoMoment(`${name} is no lecture: ${reason.message}`) : reason;
    }
    this.last = 0;
    void this.show(0);
    return true;
  }

  /** @param {LectureFile} file */
  change(file) {
    this.file = file;
    try {
      localStorage.setItem(KEY, written(file));
    } catch {
      // Without storage, the list is lost with the page; it can still be saved as a file.
    }
    this.changed();
  }

  /** Change the order or the plays. The play that is shown stays; if it was removed, the play at its place is shown. @param {LectureFile} file */
  arrange(file) {
    const { at, play } = this;
    this.change(file);
    if (at === null || play === null) return;
    const to = file.plays.indexOf(play);
    if (to === -1) void this.show(Math.min(at, file.plays.length - 1));
    else {
      this.last = to;
      this.moment.go({ lecture: to + 1 });
    }
  }

  /** Return to the list of the lessons. */
  restore() {
    this.arrange(standard(source()));
    try {
      localStorage.removeItem(KEY);
    } catch {
      // There is no storage.
    }
  }

  save() {
    offer(new File([written(this.file)], `${this.file.title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-|-$/g, "") || "lecture"}.json`, { type: "application/json" }));
  }

  /** Add what the page shows as a play, after the play that is shown. */
  addHere() {
    const { run, tab } = this.moment.place;
    const info = this.moment.runs.find((each) => each.id === run);
    // Another installation could not play such a run.
    if (source().live && run !== LIVE && tab !== "lessons" && !info?.link) this.trouble = "only runs of scenarios and seeds can be plays";
    else this.add(this.here());
    this.changed();
  }

  /** A play of what the page shows now. @returns {Play} */
  here() {
    const { run, at, tab, lesson } = this.moment.place;
    const info = this.moment.runs.find((each) => each.id === run);
    if (tab === "lessons" && lesson !== null) return { title: lesson, notes: "", lesson };
    const view = { notes: "", tab, ...(at === null ? {} : { at }) };
    if (!info?.link) return run === LIVE ? { title: `Tab ${tab}`, notes: "", tab } : { title: info?.title ?? run, ...view };
    const of = new URLSearchParams(info.link);
    const scenario = of.get("scenario") ?? "";
    const seed = of.get("seed");
    if (seed !== null && info.kind === "seed") return { title: info.title, ...view, seed: Number(seed), faults: scenario };
    return { title: info.title, ...view, scenario, ...(seed === null ? {} : { seed: Number(seed) }), ...(of.get("bug") === "yes" ? { bug: true } : {}) };
  }

  /** Add a play after the one that is shown. @param {Play} play */
  add(play) {
    const at = this.at ?? this.file.plays.length - 1;
    const plays = [...this.file.plays];
    plays.splice(at + 1, 0, play);
    this.change({ ...this.file, plays });
  }

  // -- keys ------------------------------------------------------------------------------------------------------------

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (this.at === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target instanceof Element ? event.target : null;
    if (document.querySelector("dialog[open]") || target?.closest("input:not([type=checkbox], [type=radio]), select, textarea")) return;
    /** @type {Record<string, () => void>} */
    const bound = {
      PageDown: () => this.step(1),
      PageUp: () => this.step(-1),
      n: () => {
        this.notes = !this.notes;
        this.changed();
      },
      g: () => void this.act(),
      R: () => this.reset.press(this.file),
    };
    if (!Object.hasOwn(bound, event.key)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    // A key that is held down counts once.
    if (!event.repeat) bound[event.key]();
  }
}

/** The list in the browser's storage. @returns {LectureFile | null} */
function stored() {
  try {
    const text = localStorage.getItem(KEY);
    return text === null ? null : lectureOf(JSON.parse(text));
  } catch {
    return null;
  }
}
