// The Messages tab: a space-time diagram of the window around the moment, its phases, and the same data as a table.

import { html, nothing } from "lit-html";
import { ref } from "lit-html/directives/ref.js";

import { count, plural } from "../format.js";
import { isProgress, sentence, weight } from "../sentences.js";
import { panel } from "../views/parts.js";
import { fillIn } from "../views/request_faults.js";
import { likeMessage } from "./again.js";
import { KINDS, suited } from "./axis.js";
import { Conversation } from "./conversation.js";
import { Diagram } from "./diagram.js";
import { lanes } from "./lanes.js";
import { phases } from "./phases.js";
import { hasOneClock, moment as momentWord, span } from "./times.js";
import { burst, fitted, holds, moved, zoomed } from "./window.js";
import { CHATTER, GROUPS, isLost, subject } from "./words.js";

/**
 * @typedef {import("../store.js").State} State
 * @typedef {import("../time/moment.js").Moment} Moment
 * @typedef {import("../fold.js").Entry} Entry
 * @typedef {import("./words.js").Message} Message
 * @typedef {import("./window.js").Window} Window
 */

const AROUND = 400;
/** Events around a window that the user has moved are read up to this number. */
const EVENTS_MAX = 8_000;
const LIVE_US = 5_000_000;
const ROWS_MAX = 300;
const ALL = [...GROUPS, ...CHATTER];

/** State of the tab that is not in the address. */
const ui = {
  /** @type {import("./axis.js").Kind | null} The axis that the user has chosen. */
  kind: null,
  /** The axis that suits the burst around the moment. */
  suited: /** @type {import("./axis.js").Kind} */ ("true"),
  /** @type {Set<string>} */
  on: new Set(GROUPS.map((group) => group.name)),
  /** @type {Window | null} */
  window: null,
  /** Whether the user has zoomed or moved the window. */
  own: false,
  /** The number of the moment that the window was made for. */
  at: -1,
  run: "",
  /** @type {Entry[]} Events around the moment and the window. */
  events: [],
  /** Their first and last number, and whether others are being read. */
  first: 0,
  last: -1,
  reading: false,
  table: false,
};
/** @type {Conversation | null} */
let conversation = null;
const diagram = new Diagram();

/** The drawing, for the tests. */
export const theDiagram = () => diagram;

// One function for all draws: with a new function, lit would detach and attach the canvas, and the focus would be lost.
const attach = (/** @type {Element | undefined} */ element) => diagram.attach(element);

/** @type {import("../tabs.js").View} */
export function view(state, _m, moment, changed) {
  conversation ??= new Conversation(changed);
  const current = moment.current();
  const info = current.info;
  if (ui.run !== current.run) [ui.run, ui.window, ui.own, ui.at, ui.events, ui.first, ui.last] = [current.run, null, false, -1, [], 0, -1];
  readAround(moment, changed);
  const time = (/** @type {Entry} */ entry) => entry.wall_us;
  const at_us = momentTime(moment);
  const asked = windowAt(moment, at_us);
  if (asked === null) return panel("messages", "Messages", nothing, html`<p class="quiet">Loading the events around this moment…</p>`);
  const classes = ALL.filter((group) => ui.on.has(group.name)).flatMap((group) => group.classes);
  const loaded = conversation.of(current.run, asked, classes, current.run === "live" && asked.to_us > current.last_us - 10e6);
  const messages = loaded?.messages ?? [];
  const moments = [...ui.events.filter((entry) => !isProgress(state.sentences, entry)).map(time), ...messages.flatMap((each) => [each.sent_us, each.arrived_us ?? each.sent_us])];
  const isBurst = !ui.own && !current.live;
  const window = isBurst && loaded?.window === asked ? fitted(asked, at_us === null ? moments : [...moments, at_us]) : asked;
  if (isBurst && loaded?.window === asked) ui.suited = suited(moments.sort((a, b) => a - b), window.from_us, window.to_us, diagram.width);
  const kind = ui.kind ?? (current.live ? "true" : ui.suited);
  const anchor_us = at_us !== null && holds(window, at_us) ? at_us : (window.from_us + window.to_us) / 2;
  const shown = ui.events.filter((entry) => time(entry) >= window.from_us && time(entry) <= window.to_us);
  const when = (/** @type {number} */ us) => momentWord(info, us, window.to_us - window.from_us);
  const found = phases(shown, messages, time, current.state.controller_terms);
  const rows = lanes(messages, current.state);
  diagram.show({
    messages, lanes: rows, phases: found, kind, window, anchor_us, at_us: current.live ? null : at_us, when,
    events: shown.filter((entry) => !isProgress(state.sentences, entry)).map((entry) => ({
      entry, us: time(entry), text: sentence(state.sentences, entry), weight: weight(state.sentences, entry),
    })),
    goTo: (seq) => moment.go({ at: seq }),
    goNear: (us) => goNear(moment, us),
    zoom: (factor, around) => look(zoomed(window, factor, around, diagram.scene?.axis), changed),
    changed,
  });
  const body = html`
    ${controls(moment, window, anchor_us, kind, loaded?.hidden ?? {}, changed)}
    ${info !== null && !info.messages && current.run !== "live" ? html`<p class="note">The messages of this run were not recorded: only its events are shown. (An uploaded run has no messages. In scenarios of the bare protocol the packets are steps of the script.)</p>` : nothing}
    ${conversation.trouble ? html`<p class="bad" role="alert">${conversation.trouble}</p>` : nothing}
    ${summary(found, messages, when)}
    <div class="spacetime" ${ref(attach)}></div>
    <p class="told" aria-live="polite">${diagram.told.map((each, place) => (place ? html`<span>${each}</span>` : html`<b>${each}</b>`))}</p>
    <p class="legend quiet">${legend(loaded?.truncated ?? false)}</p>
    ${table(messages, when, moment, changed, current.run === "live")}`;
  return panel("messages", "Messages", html`<span class="quiet">${plural(messages.length, "message")} in ${span(window.to_us - window.from_us)}${conversation.waits ? ", loading…" : ""}</span>`, body);
}

/** Read the missing events around the moment and in the window. @param {Moment} moment @param {() => void} changed */
function readAround(moment, changed) {
  const { run, seq } = moment.current();
  const range = seq === 0 || ui.reading ? null : missing(moment);
  if (range === null) return;
  ui.reading = true;
  const [first, last] = range;
  moment.entries(first, last).then(
    (entries) => {
      if (run === ui.run) [ui.events, ui.first, ui.last] = [entries, first, last];
    },
    () => {
      // The page reports elsewhere that the API does not respond. Loaded events stay.
      if (run === ui.run) [ui.first, ui.last] = range;
    },
  ).finally(() => {
    ui.reading = false;
    changed();
  });
}

/** The range of events to read; null if none are missing. @param {Moment} moment @returns {[number, number] | null} */
function missing(moment) {
  const { seq, first_seq, last_seq, live } = moment.current();
  const [first, last] = [Math.max(first_seq, seq - AROUND), Math.min(last_seq, seq + AROUND)];
  const half = AROUND / 2;
  const around = live ? ui.last >= last : ui.first <= Math.max(first_seq, seq - half) && ui.last >= Math.min(last_seq, seq + half);
  if (!around || ui.window === null) return around ? null : [first, last];
  if (!ui.own || live || ui.events.length === 0 || ui.last - ui.first > EVENTS_MAX) return null;
  const earlier = ui.first > first_seq && ui.window.from_us < ui.events[0].wall_us;
  const later = ui.last < last_seq && ui.window.to_us > ui.events[ui.events.length - 1].wall_us;
  return earlier || later ? [earlier ? Math.max(first_seq, ui.first - AROUND) : ui.first, later ? Math.min(last_seq, ui.last + AROUND) : ui.last] : null;
}

/** The moment on the clock of the messages; null until its event is loaded. @param {Moment} moment */
function momentTime(moment) {
  const { seq, live, last_us } = moment.current();
  if (live) return last_us;
  if (seq < ui.first || seq > ui.last) return null;
  const entry = ui.events.findLast((each) => each.seq <= seq);
  return entry === undefined ? null : entry.wall_us;
}

/**
 * The window: as the user has set it, until a moment outside of it is shown; otherwise the burst around the moment.
 * @param {Moment} moment @param {number | null} at_us
 */
function windowAt(moment, at_us) {
  const { info, live, last_us, seq } = moment.current();
  if (live && ui.window === null) return { from_us: last_us - LIVE_US, to_us: last_us };
  if (at_us === null || live) return ui.window;
  if (ui.window === null || (ui.at !== seq && !holds(ui.window, at_us))) {
    const times = ui.events.map((entry) => entry.wall_us).sort((a, b) => a - b);
    ui.window = burst(times, at_us, hasOneClock(info) ? "simulated" : "live");
    ui.own = false;
  }
  ui.at = seq;
  return ui.window;
}

/** Show this window; null means the burst around the moment. @param {Window | null} window @param {() => void} changed */
function look(window, changed) {
  ui.window = window;
  ui.own = window !== null;
  changed();
}

/** Go to the last event up to a time. @param {Moment} moment @param {number} us */
function goNear(moment, us) {
  const before = ui.events.filter((entry) => entry.wall_us <= us);
  const last = before.reduce((/** @type {Entry | null} */ best, entry) => (best === null || entry.wall_us >= best.wall_us ? entry : best), null);
  if (last !== null) moment.go({ at: last.seq });
}

/**
 * @param {Moment} moment @param {Window} window @param {number} anchor_us what stays where it is @param {import("./axis.js").Kind} kind
 * @param {Record<string, number>} hidden @param {() => void} changed
 */
function controls(moment, window, anchor_us, kind, hidden, changed) {
  const toggle = (/** @type {string} */ name) => {
    if (ui.on.has(name)) ui.on.delete(name);
    else ui.on.add(name);
    changed();
  };
  const zoom = (/** @type {number} */ factor) => look(zoomed(window, factor, anchor_us, diagram.scene?.axis), changed);
  const choose = (/** @type {import("./axis.js").Kind} */ chosen) => {
    ui.kind = chosen;
    changed();
  };
  const button = (/** @type {string} */ text, /** @type {string} */ name, /** @type {() => void} */ act) => html`<button type="button" class="small"
    aria-label=${name} title=${name} @click=${act}>${text}</button>`;
  return html`<div class="row controls" role="group" aria-label="Display options">
    <span class="chips">${ALL.map(({ name, title, classes }) => {
      const left = classes.reduce((sum, each) => sum + (hidden[each] ?? 0), 0);
      return html`<button type="button" class="small chip of-${name}" aria-pressed=${ui.on.has(name) ? "true" : "false"}
        @click=${() => toggle(name)}>${title}${left ? html` <span class="count">${count(left)} hidden</span>` : nothing}</button>`;
    })}</span>
    <span class="chips" role="group" aria-label="axis">${KINDS.map(([value, text, title]) => html`<button type="button" class="small axis" title=${title}
      aria-pressed=${value === kind ? "true" : "false"} @click=${() => choose(value)}>${text}</button>`)}</span>
    <span class="chips">${button("−", "Zoom out", () => zoom(2))}
      ${button("+", "Zoom in", () => zoom(0.5))}
      ${button("‹", "Earlier", () => look(moved(window, -0.5), changed))}
      ${button("›", "Later", () => look(moved(window, 0.5), changed))}
      ${button("Fit activity", "Show the activity around this moment", () => look(null, changed))}</span>
    ${moment.current().live ? html`<button type="button" class="small" @click=${() => void moment.next("election", -1)}>Last election</button>` : nothing}
  </div>`;
}

/**
 * The phases in words, for users who cannot see the strip.
 * @param {import("./phases.js").Phase[]} found
 * @param {Message[]} messages
 * @param {(us: number) => string} when
 */
function summary(found, messages, when) {
  const lost = messages.filter(isLost).length;
  if (!found.length && !lost) return nothing;
  return html`<p class="phases">${found.map(({ name, title, from_us, to_us }) => html`<span title=${`${title}, from ${when(from_us)}`}><b>${name}</b>
    ${span(to_us - from_us)}</span>`)}${lost ? html`<span class="bad">${plural(lost, "message")} did not arrive</span>` : nothing}</p>`;
}

/** @param {boolean} truncated */
function legend(truncated) {
  return html`<span class="of-zab">ZAB</span><span class="of-client">ZooKeeper client</span><span class="of-kafka">Kafka</span>
    <span>lighter: responses</span><span>✕: never arrived</span><span>○: event in the journal</span>
    ${diagram.unnamed ? html`<span>${plural(diagram.unnamed, "label")} hidden, hover to see ${diagram.unnamed === 1 ? "it" : "them"}</span>` : nothing}
    ${truncated ? html`<b class="warn">Too many messages to draw: the latest are not shown, but counted as hidden.</b>` : nothing}`;
}

/** A button that opens the form of a fault for requests like this one. @param {Message} message @param {Moment} moment */
function again(message, moment) {
  const fields = likeMessage(message);
  if (fields === null) return nothing;
  const open = () => {
    fillIn(fields);
    moment.go({ tab: "lab", at: null });
  };
  return html` <button type="button" class="small" aria-label=${`Add a fault for the next request like this: ${message.kind} from ${message.from}`} @click=${open}>Add a fault for the next request</button>`;
}

/**
 * The same data as the drawing.
 * @param {Message[]} messages @param {(us: number) => string} when @param {Moment} moment @param {() => void} changed
 * @param {boolean} disturbs whether requests of the run can meet faults
 */
function table(messages, when, moment, changed, disturbs) {
  const opened = (/** @type {Event} */ event) => {
    ui.table = /** @type {HTMLDetailsElement} */ (event.currentTarget).open;
    changed();
  };
  return html`<details class="twin" @toggle=${opened}><summary>Show as a table</summary>
    ${ui.table ? html`<div class="scroll" role="region" aria-label="Messages" tabindex="0"><table><thead><tr><th scope="col">sent</th><th scope="col">took</th>
      <th scope="col">from</th><th scope="col">to</th><th scope="col">message</th><th scope="col">content</th></tr></thead>
      <tbody>${messages.slice(0, ROWS_MAX).map((each) => html`<tr class=${isLost(each) ? "lost" : ""}>
        <td><button type="button" class="small" @click=${() => goNear(moment, each.arrived_us ?? each.sent_us)}>${when(each.sent_us)}</button></td>
        <td class="n">${each.arrived_us === null ? (isLost(each) ? "never arrived" : "unknown") : span(each.arrived_us - each.sent_us)}</td><td>${each.from}</td><td>${each.to}</td>
        <td>${each.kind}${disturbs ? again(each, moment) : nothing}</td><td>${each.lost ? html`<i>${each.lost}</i> ` : nothing}${subject(each)}</td></tr>`)}</tbody></table></div>
      ${messages.length > ROWS_MAX ? html`<p class="quiet">${count(messages.length - ROWS_MAX)} more: zoom in to see them.</p>` : nothing}` : nothing}
  </details>`;
}
