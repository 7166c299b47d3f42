// Both runs as tracks on one axis: the controller and each partition's ISR, one above the other, and the first
// difference.

import { html, nothing, svg } from "lit-html";

/**
 * @typedef {{from_us: number, to_us: number | null, value: any, state: string, seq: number}} Span
 * @typedef {{lane: string, kind: string, spans: Span[]}} Lane
 * @typedef {{first_us: number, last_us: number, lanes: Lane[]}} Spans
 */

const WIDTH = 1000;
const GUTTER = 116;
const ROW = 15;
const GAP = 5;

/** @param {Spans} a @param {Spans} b @param {{a: string, b: string}} names @param {{a_us: number | null, b_us: number | null}} part when each run parts, since it began */
export function axis(a, b, names, part) {
  const length_us = Math.max(a.last_us - a.first_us, b.last_us - b.first_us, 1);
  const lanes = [...new Set([...a.lanes, ...b.lanes].filter(shown).map((lane) => lane.lane))];
  const height = lanes.length * (2 * ROW + GAP + 6) + 18;
  const x = (/** @type {number} */ us) => GUTTER + Math.max(0, Math.min(1, us / length_us)) * (WIDTH - GUTTER);
  const at = part.a_us ?? part.b_us;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Both runs, scrollable"><svg class="both-tracks" viewBox="0 0 ${WIDTH} ${height}" role="img"
    aria-label="Both runs on one axis of ${(length_us / 1e6).toFixed(1)} s, ${names.a} above ${names.b}; the lists below show the same data">
    ${lanes.map((lane, i) => {
    const y = 4 + i * (2 * ROW + GAP + 6);
    return svg`<text class="lane" x="0" y=${y + ROW - 3}>${lane.replace("isr:", "")}</text>
      ${bars(a, lane, y, x)}${bars(b, lane, y + ROW + 2, x)}`;
  })}
    ${ticks(length_us, x, height)}
    ${at === null ? nothing : svg`<line class="parting" x1=${x(at)} x2=${x(at)} y1="0" y2=${height - 14}/>`}</svg></div>`;
}

/** @param {Lane} lane */
const shown = (lane) => lane.kind === "controller" || (lane.kind === "isr" && !lane.lane.startsWith("isr:__"));

/**
 * Controllers or leaders over time: for an ISR, only the rows of leaders and `leaderless`.
 * @param {Spans} run
 * @param {string} name
 * @param {number} y
 * @param {(us: number) => number} x
 */
function bars(run, name, y, x) {
  const lane = run.lanes.find((each) => each.lane === name);
  if (!lane) return nothing;
  const spans = lane.kind === "isr" ? lane.spans.filter((span) => span.state === "leader" || span.state === "leaderless") : lane.spans;
  return spans.map((span) => {
    const [from, to] = [x(span.from_us - run.first_us), x((span.to_us ?? run.last_us) - run.first_us)];
    const holder = span.value?.broker_id ?? span.value?.replica ?? -1;
    const vacant = span.state === "leaderless" || span.state === "none" || holder < 0;
    const text = vacant ? "none" : `${holder}${span.value?.controller_epoch ? `@${span.value.controller_epoch}` : ""}`;
    return svg`<g class="bar-of ${vacant ? "none" : `b${holder % 8}`} ${span.state}"><rect x=${from.toFixed(1)} y=${y} width=${Math.max(1, to - from).toFixed(1)} height=${ROW - 2} rx="2"/>
      ${to - from > 46 ? svg`<text x=${(from + 5).toFixed(1)} y=${y + ROW - 5}>${text}</text>` : nothing}</g>`;
  });
}

/** @param {number} length_us @param {(us: number) => number} x @param {number} height */
function ticks(length_us, x, height) {
  const step_s = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60].find((s) => length_us / 1e6 / s <= 10) ?? 120;
  const all = Array.from({ length: Math.floor(length_us / 1e6 / step_s) + 1 }, (_, i) => i * step_s);
  return all.map((s) => svg`<text class="tick" x=${x(s * 1e6)} y=${height - 2}>${Number(s.toFixed(2))} s</text>`);
}
