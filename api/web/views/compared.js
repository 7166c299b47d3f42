// The pinned moment next to the shown one: only the differences between them.

import { html, nothing } from "lit-html";
import { guard } from "lit-html/directives/guard.js";

import { clock, duration, plural } from "../format.js";
import { differences } from "../time/difference.js";
import { panel } from "./parts.js";

const SHOWN_MAX = 60;

/** @param {import("../time/moment.js").Moment} moment */
export function compared(moment) {
  const { pinned } = moment;
  if (pinned === null) return nothing;
  const { state, seq, at_us, live } = moment.current();
  const here = live ? "now" : html`event <b>${seq}</b>`;
  const apart = (at_us - pinned.state.at_us) / 1000;
  const aside = html`<span class="sum">A, event <b>${pinned.seq}</b> ${clock(pinned.state.at_us)} → ${here}, ${duration(Math.abs(apart))} ${apart < 0 ? "earlier" : "later"}</span>
    <span class="row push"><button type="button" class="small" @click=${() => moment.go({ at: pinned.seq })}>Go to A</button>
      <button type="button" class="small" @click=${() => moment.go({ pin: null })}>Unpin</button></span>`;
  return panel("compared", "Changed since A", aside, html`${guard([pinned, state, seq], () => changes(differences(pinned.state, state)))}`);
}

/** @param {import("../time/difference.js").Difference[]} found */
function changes(found) {
  if (found.length === 0) return html`<p class="quiet">No differences.</p>`;
  return html`<div class="scroll changes" tabindex="0" role="region" aria-label="Changes since A, scrollable"><table>
    <thead><tr><th scope="col">field</th><th scope="col">at A</th><th scope="col">at this moment</th></tr></thead>
    <tbody>${found.slice(0, SHOWN_MAX).map(({ of, field, before, after }, i) => html`<tr><th scope="row">${of === found[i - 1]?.of ? "" : of}<span class="facts">${field}</span></th>
      <td class="quiet">${before}</td><td><b>${after}</b></td></tr>`)}
    ${found.length > SHOWN_MAX ? html`<tr><td colspan="3" class="quiet">and ${plural(found.length - SHOWN_MAX, "more change")}</td></tr>` : nothing}</tbody></table></div>`;
}
