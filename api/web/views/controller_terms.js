// The controller epoch: the current one in large type, earlier ones as a ribbon of controller terms and gaps over time,
// and as a list.

import { html, nothing } from "lit-html";

import { clock, clockShort, controllerTerm, duration, lastKnown, shortTerm, words } from "../format.js";
import { gapBefore, partsText } from "../gaps.js";
import { leftOfSession } from "../model.js";
import { term } from "./glossary.js";
import { icon } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../fold.js").ControllerTermView} ControllerTermView
 */

const SHOWN_MAX = 10;
// A shorter gap is only the time between two lines of a journal.
const GAP_MIN_US = 50_000;

/** @type {Record<string, string>} The end of a controller, by the action that stopped its process. */
const FATES = {
  kill: "killed", exited: "exited", stop: "stopped", pause: "frozen", stopped: "frozen", crash: "crashed",
  power_loss: "lost power",
};

/** @param {ControllerTermView} term */
const fate = (term) => FATES[term.holder_lost_by ?? ""] ?? words(term.holder_lost_by);

/** @param {Model} m */
export function controller_terms(m) {
  const { ensemble } = m;
  const missing = gone(ensemble) && m.brokers.length > 0;
  const current = m.controller_terms.at(-1);
  const since = current && current.until_us === null ? current.since_us : (current?.holder_lost_us ?? current?.until_us ?? null);
  const gap = gone(ensemble) ? null : gapBefore(m.controller_terms, m.controller_terms.length - 1);
  const known_ms = m.now_ms - (ensemble.stale ? ensemble.age_ms : 0);
  const lasted = since === null ? "" : duration(known_ms - since / 1000);
  const absent_us = !gone(ensemble) && current?.until_us === null && current.broker_id === ensemble.id ? current.holder_lost_us : null;
  return html`<section class="panel controller_terms" id="controller_terms" tabindex="-1" aria-labelledby="controller_terms-title">
    <div class="epoch ${missing || absent_us !== null ? "bad" : ""}">
      <h2 id="controller_terms-title">${term("Controller", "controller")} ${term("epoch")}</h2>
      <p class="number" role="group" aria-label="controller epoch ${ensemble.epoch}">${ensemble.epoch}</p>
      <p><strong>${missing ? html`${icon("bad")} No controller` : gone(ensemble) ? "No brokers" : html`${icon("crown")} Broker ${ensemble.id}`}</strong>
        <span>${absent_us !== null && current ? html`${fate(current)} <time>${duration(m.now_ms - absent_us / 1000)}</time> ago; ${leftOfSession(m, absent_us)}`
          : since === null ? "" : html`${gone(ensemble) ? "for" : ensemble.stale ? "was controller for" : "controller for"} <time>${lasted}</time>`}</span>
        <span class="quiet" title="zkVersion of /controller_epoch, which fences the controller's writes">${ensemble.stale
          ? html`${icon("warn")} ${lastKnown(ensemble)}` : `zkVersion ${ensemble.zk_version}`}</span>
        ${gap === null ? nothing : html`<span class="quiet" title=${partsText(gap)}>before that, no controller for ${duration((gap.to_us - gap.from_us) / 1000)}</span>`}</p>
    </div>
    ${ribbon(m)}
    <ol class="history" aria-label="Controller terms, newest first" tabindex="0">
      ${m.controller_terms.slice(-SHOWN_MAX).map((_, i, shown) => row(m, m.controller_terms.length - shown.length + i)).reverse()}
      ${m.controller_terms.length ? nothing : html`<li class="quiet">no controller so far</li>`}
    </ol>
  </section>`;
}

/** @param {import("../model.js").Ensemble} ensemble */
const gone = (ensemble) => ensemble.id < 0;

/** @param {Model} m @param {number} place */
function row(m, place) {
  const now_us = m.now_ms * 1000;
  const term = m.controller_terms[place];
  const lost_us = term.holder_lost_us ?? term.until_us;
  const acted = duration(((lost_us ?? now_us) - term.since_us) / 1000);
  return html`<li>
    <b class="of-broker b${term.broker_id % 8}" title=${controllerTerm(term.broker_id, term.controller_epoch)}>${shortTerm(term.broker_id, term.controller_epoch)}</b>
    <time title=${clock(term.since_us)}>${clockShort(term.since_us)}</time>
    <span>${acted}</span><span>${lost_us === null ? html`${icon("crown")} controller now` : ending(term)}</span>
    ${lost_us === null ? nothing : after(m.controller_terms, place, lost_us, now_us)}
  </li>`;
}

/** The time without a controller after one. @param {ControllerTermView[]} all @param {number} place @param {number} lost_us @param {number} now_us */
function after(all, place, lost_us, now_us) {
  const next = all[place + 1];
  const gap = gapBefore(all, place + 1);
  if (gap !== null) {
    const whole = duration((gap.to_us - gap.from_us) / 1000);
    return gap.to_us - gap.from_us > GAP_MIN_US ? html`<span class="gap">then no controller for ${whole}: ${partsText(gap)}</span>` : nothing;
  }
  const until_us = next?.since_us ?? now_us;
  if (until_us - lost_us <= GAP_MIN_US) return nothing;
  const known = duration((until_us - lost_us) / 1000);
  return html`<span class="gap">${next === undefined ? `no controller for ${known} so far` : `then no controller for at least ${known}`}</span>`;
}

/** The end of a controller term: what happened to its process, and how much later its session ended. @param {ControllerTermView} term */
function ending(term) {
  if (term.holder_lost_us === null) return words(term.ended_by);
  if (term.until_us === null) return `${fate(term)}, session not expired yet`;
  return `${fate(term)}, ${words(term.ended_by)} ${duration((term.until_us - term.holder_lost_us) / 1000)} later`;
}

/**
 * Controller terms and gaps in order, each as wide as the logarithm of its duration: a failover of six seconds stays visible
 * next to a term of an hour.
 * @param {ControllerTermView[]} shown @param {number} now_us
 */
export function spans(shown, now_us) {
  const found = shown.flatMap((term, i) => {
    const until_us = term.until_us ?? now_us;
    const lost_us = Math.min(term.holder_lost_us ?? until_us, until_us);
    const next = shown[i + 1];
    const next_us = next === undefined ? now_us : next.ready_us ?? next.since_us;
    /** @type {{term: ControllerTermView | null, kind: "acts" | "absent" | "gap", from_us: number, to_us: number}[]} */
    const parts = [{ term, kind: "acts", from_us: Math.min(term.ready_us ?? term.since_us, lost_us), to_us: lost_us }];
    if (term.holder_lost_us !== null) parts.push({ term, kind: "absent", from_us: lost_us, to_us: until_us });
    if (term.until_us !== null && next_us - until_us > GAP_MIN_US) parts.push({ term: null, kind: "gap", from_us: until_us, to_us: next_us });
    return parts;
  });
  return found.map((s) => ({ ...s, width: 0.5 + Math.log1p(Math.max(0, s.to_us - s.from_us) / 2e6) }));
}

/** @param {Model} m */
function ribbon(m) {
  const placed = spans(m.controller_terms.slice(-SHOWN_MAX), m.now_ms * 1000);
  return html`<ol class="ribbon" aria-label="Controller terms in order, not to scale">${placed.map(band)}</ol>`;
}

/** @param {ReturnType<typeof spans>[number]} s */
function band({ term, kind, from_us, to_us, width }) {
  const lasted = duration((to_us - from_us) / 1000);
  const name = term ? shortTerm(term.broker_id, term.controller_epoch) : "none";
  const who = term ? `broker ${term.broker_id}, controller epoch ${term.controller_epoch}` : "no controller";
  const title = kind === "absent" && term ? `${who}: ${fate(term)}, session not expired yet` : who;
  // Set through the style object, which the page's Content-Security-Policy allows, unlike a style attribute.
  return html`<li class="band ${kind} ${term ? `b${term.broker_id % 8}` : ""}" .style=${`flex-grow: ${width.toFixed(3)}`}
    title="${title}, from ${clock(from_us)} for ${lasted}">
    <p><b>${kind === "absent" && term ? fate(term) : name}</b><span>${lasted}</span></p>
    <time>${clockShort(from_us)}</time></li>`;
}
