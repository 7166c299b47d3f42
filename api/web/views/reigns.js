// The controller epoch: now, large; before, as a ribbon of reigns and gaps over time, and as a list.

import { html, nothing } from "lit-html";

import { clock, clockShort, duration, words } from "../format.js";
import { icon } from "./parts.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../fold.js").Reign} Reign
 */

const SHOWN_MAX = 10;
// A gap below this is only the time between two lines of a journal.
const GAP_MIN_US = 50_000;

/** @param {Model} m */
export function reigns(m) {
  const { ensemble } = m;
  const current = m.reigns.at(-1);
  const since = current && current.until_us === null ? current.since_us : (current?.until_us ?? null);
  const lasted = since === null ? "" : duration(m.now_ms - since / 1000);
  const gone = ensemble.id < 0;
  return html`<section class="panel reigns" id="reigns" tabindex="-1" aria-labelledby="reigns-title">
    <div class="epoch ${gone ? "bad" : ""}">
      <h2 id="reigns-title">Controller epoch</h2>
      <p class="number" aria-label="controller epoch ${ensemble.epoch}">${ensemble.epoch}</p>
      <p><strong>${gone ? html`${icon("bad")} No controller` : html`${icon("crown")} Broker ${ensemble.id}`}</strong>
        <span>${since === null ? "" : html`${gone ? "for" : "reigns for"} <time>${lasted}</time>`}</span>
        <span class="quiet" title="zkVersion of /controller_epoch: what fences a controller's writes">${ensemble.stale
          ? html`${icon("warn")} last known word` : `zkVersion ${ensemble.zk_version}`}</span></p>
    </div>
    ${ribbon(m)}
    <ol class="history" aria-label="Reigns, the newest first" tabindex="0">
      ${m.reigns.slice(-SHOWN_MAX).reverse().map((reign, i, shown) => row(m, reign, shown[i - 1]))}
      ${m.reigns.length ? nothing : html`<li class="quiet">nobody has been controller yet</li>`}
    </ol>
  </section>`;
}

/** @param {Model} m @param {Reign} reign @param {Reign | undefined} next */
function row(m, reign, next) {
  const until_us = reign.until_us ?? m.now_ms * 1000;
  const gap_us = reign.until_us === null ? 0 : (next?.since_us ?? m.now_ms * 1000) - reign.until_us;
  const ended = reign.until_us === null ? html`${icon("crown")} reigns` : words(reign.ended_by);
  return html`<li>
    <b class="of-broker b${reign.broker_id % 8}">${reign.broker_id}@${reign.controller_epoch}</b>
    <time title=${clock(reign.since_us)}>${clockShort(reign.since_us)}</time>
    <span>${duration((until_us - reign.since_us) / 1000)}</span><span>${ended}</span>
    ${gap_us > GAP_MIN_US ? html`<span class="gap">then ${duration(gap_us / 1000)} without</span>` : nothing}
  </li>`;
}

/**
 * Reigns and gaps in their order, each as wide as the logarithm of its span: a failover of six seconds is seen beside
 * a reign of an hour, which on a true scale it would not be.
 * @param {Reign[]} shown @param {number} now_us
 */
export function spans(shown, now_us) {
  const found = shown.flatMap((reign, i) => {
    const until_us = reign.until_us ?? now_us;
    const next_us = shown[i + 1]?.since_us ?? now_us;
    const own = { reign, from_us: reign.since_us, to_us: until_us };
    const gap = { reign: null, from_us: until_us, to_us: next_us };
    return reign.until_us !== null && next_us - until_us > GAP_MIN_US ? [own, gap] : [own];
  });
  return found.map((s) => ({ ...s, width: 0.5 + Math.log1p(Math.max(0, s.to_us - s.from_us) / 2e6) }));
}

/** @param {Model} m */
function ribbon(m) {
  const placed = spans(m.reigns.slice(-SHOWN_MAX), m.now_ms * 1000);
  return html`<ol class="ribbon" aria-label="Reigns in their order, not to scale">${placed.map(band)}</ol>`;
}

/** @param {ReturnType<typeof spans>[number]} s */
function band({ reign, from_us, to_us, width }) {
  const lasted = duration((to_us - from_us) / 1000);
  const title = reign ? `broker ${reign.broker_id}, controller epoch ${reign.controller_epoch}` : "no controller";
  // Set through the style object, which the page's content policy allows, unlike a style attribute.
  return html`<li class="band ${reign ? `b${reign.broker_id % 8}` : "gap"}" .style=${`flex-grow: ${width.toFixed(3)}`}
    title="${title}, from ${clock(from_us)} for ${lasted}">
    <p><b>${reign ? `${reign.broker_id}@${reign.controller_epoch}` : "none"}</b><span>${lasted}</span></p>
    <time>${clockShort(from_us)}</time></li>`;
}
