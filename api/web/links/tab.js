// Links between the nodes, and their faults: drag from node to node, or use the equivalent form.

import { html, nothing, svg } from "lit-html";

import { requests } from "../actions.js";
import { plural } from "../format.js";
import { badge, icon, panel, send, submit } from "../views/parts.js";
import { amount, CUT, fields, formInjection, howMany, injection, noFault, spokenEnd } from "./fault.js";
import { splitForm } from "./split.js";
import { clients, faultyLinks, nodeAt, path, places, ROW, SIZE } from "./ring.js";

/**
 * @typedef {import("../model.js").Model} Model
 * @typedef {import("../actions.js").Actions} Actions
 * @typedef {import("./fault.js").Manner} Manner
 * @typedef {import("./ring.js").Place} Place
 * @typedef {import("./ring.js").Client} Client
 */

/** @type {Manner} The fault that a drag creates. */
let manner = CUT;
/** @type {{from: Place, x: number, y: number} | null} The current drag. */
let drag = null;
/** @type {{name: string, to: string | null} | null} The last announcement about a drag. */
let announced = null;

/** @type {import("../tabs.js").View} */
export function view(_state, m, _moment, changed, actions) {
  const all = places(m.brokers.filter((b) => b.ours).map((b) => b.name), m.peers.map((p) => p.name));
  const aside = m.faults.length ? html`<span class="sum warn">${icon("warn")} ${howMany(m)}</span>
    ${send(actions, requests.healAll(), "Heal all")}` : html`<span class="sum">${noFault(m).toLowerCase()}</span>`;
  return panel("links", "Links", aside, html`<div class="links">
    <div class="ring-side">${ring(all, m, actions, actions.off === "", changed)}${howTo(actions, changed)}</div>
    <div class="links-side">${form(all, actions, actions.off === "")}${splitForm(all.map((place) => place.name), actions, changed)}${held(m, actions)}</div></div>`);
}

/** @param {Actions} actions @param {() => void} changed */
function howTo(actions, changed) {
  const live = actions.off === "";
  const set = (/** @type {Partial<Manner>} */ wanted) => {
    manner = { ...manner, ...wanted };
    changed();
  };
  return html`<fieldset class="row manner" ?disabled=${!live}><legend>Drag from one node to another to add a fault:</legend>
    ${["cut", "delay"].map((kind) => html`<label class="field check"><input type="radio" name="ring-kind" value=${kind} .checked=${manner.kind === kind}
      @change=${() => set({ kind: /** @type {Manner["kind"]} */ (kind) })}><span>${kind === "cut" ? "cut the link" : "delay the link"}</span></label>`)}
    <label class="field check"><input type="checkbox" name="ring-both" .checked=${manner.both_ways} @change=${(/** @type {Event} */ e) =>
      set({ both_ways: /** @type {HTMLInputElement} */ (e.target).checked })}><span>both ways</span></label>
    <p class="quiet" role="status">${announced === null ? (live ? "" : `Faults cannot be added: ${actions.why}.`)
    : announced.to === null ? `No fault added: the drag from ${announced.name} ended on no other node.` : `Request received: fault from ${announced.name} to ${announced.to}.`}</p></fieldset>`;
}

/** @param {Place[]} all @param {Model} m @param {Actions} actions @param {boolean} live @param {() => void} changed */
function ring(all, m, actions, live, changed) {
  const at = (/** @type {PointerEvent} */ event) => {
    const onScreen = /** @type {SVGSVGElement} */ (event.currentTarget).getScreenCTM();
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(onScreen?.inverse());
    return { x, y };
  };
  const begin = (/** @type {PointerEvent} */ event) => {
    const from = live && event.isPrimary ? nodeAt(all, at(event)) : null;
    if (from === null) return;
    event.preventDefault();
    /** @type {SVGSVGElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    drag = { from, ...at(event) };
    changed();
  };
  const move = (/** @type {PointerEvent} */ event) => {
    if (drag === null) return;
    drag = { ...drag, ...at(event) };
    changed();
  };
  const end = (/** @type {PointerEvent} */ event) => {
    if (drag === null) return;
    const to = nodeAt(all, at(event));
    const { name } = drag.from;
    drag = null;
    announced = { name, to: to === null || to.name === name ? null : to.name };
    if (announced.to !== null) void actions.send(injection(name, announced.to, manner));
    changed();
  };
  const cancel = () => {
    drag = null;
    changed();
  };
  const outside = clients(m.faults);
  const [above, below] = [false, true].map((side) => (outside.some((end) => end.below === side) ? ROW : 0));
  return html`<svg class="ring ${live ? "live" : ""}" viewBox="0 ${-above} ${SIZE} ${above + SIZE + below}" role="img" aria-label=${spokenRing(m)}
    @pointerdown=${begin} @pointermove=${move} @pointerup=${end} @pointercancel=${cancel}>
    <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>
    ${whole(all)}
    ${faultyLinks(m.faults, all, outside).map((link) => faultyLink(link, all))}
    ${drag === null ? nothing : svg`<line class="dragged" x1=${drag.from.x} y1=${drag.from.y} x2=${drag.x} y2=${drag.y}/>`}
    ${outside.map(client)}${all.map((place) => node(place, m))}</svg>`;
}

/** A faulty link, with a wide transparent line that shows the tooltip. @param {{fault: any, from: Place | Client, to: Place | Client}} link @param {Place[]} all */
function faultyLink({ fault, from, to }, all) {
  const d = path(from, to, fault.both_ways, all);
  return svg`<g><title>${spokenFault(fault)}</title><path class="near" d=${d}/>
    <path class="fault ${fault.kind}" d=${d} marker-end="url(#arrow)" marker-start=${fault.both_ways ? "url(#arrow)" : nothing}/></g>`;
}

/** A client, as a small circle with its name on the side that no link crosses. @param {Client} end */
function client({ name, of, label, x, y, radius, below }) {
  return svg`<g class="client" transform="translate(${x.toFixed(1)} ${y})"><title>${name}</title><circle r=${radius}/>
    <text y=${below ? 23 : -29}>${of}</text><text class="number" y=${below ? 36 : -16}>${label}</text></g>`;
}

/** All links, in a light colour: from each broker to all nodes, from each peer to all nodes. @param {Place[]} all */
function whole(all) {
  return all.flatMap((from, i) => all.slice(i + 1).map((to) => svg`<line class="link" x1=${from.x} y1=${from.y} x2=${to.x} y2=${to.y}/>`));
}

/** @param {Place} place @param {Model} m */
function node(place, m) {
  const of = [...m.brokers, ...m.peers].find((each) => each.name === place.name);
  const [role, number] = place.name.split("-");
  const leads = place.peer ? m.zab.leader_id === Number(number) : m.ensemble.id === Number(number);
  const suffers = m.faults.some((f) => f.source === place.name || f.target === place.name);
  const target = drag !== null && drag.from.name !== place.name && nodeAt([place], drag) !== null;
  return svg`<g class="spot ${role} ${place.peer ? "" : `b${Number(number) % 8}`} ${of?.process ?? ""} ${leads ? "leads" : ""} ${target ? "target" : ""} ${suffers ? "suffers" : ""}"
    transform="translate(${place.x.toFixed(1)} ${place.y.toFixed(1)})"><circle r="26"/>
    <text y="-1">${role}</text><text class="number" y="13">${number}${leads ? " ♛" : ""}</text>
    ${of && of.process !== "running" ? svg`<text class="process" y="42">${of.process}</text>` : nothing}</g>`;
}

/** A fault in words. @param {any} fault */
const spokenFault = (fault) =>
  `${fault.kind} from ${spokenEnd(fault.source)} to ${spokenEnd(fault.target)}${fault.both_ways ? ", both ways" : ""}${amount(fault)}`;

/** @param {Model} m */
function spokenRing(m) {
  const suffering = m.faults.map(spokenFault);
  return `A ring of ${plural(m.brokers.length, "broker")} and ${plural(m.peers.length, "peer")}. ${suffering.length ? suffering.join("; ") : noFault(m)}. The form next to it adds the same faults.`;
}

/** @param {Place[]} all @param {Actions} actions @param {boolean} live */
function form(all, actions, live) {
  const names = all.map((place) => place.name);
  const inject = submit((form) => void actions.send(formInjection(form)));
  return html`<form class="row" aria-label="Add fault" @submit=${inject}><h3>Add a fault by form</h3>
    ${fields("link", names, names[1] ?? "")}
    <button class="primary" ?disabled=${!live}>Add fault</button></form>`;
}

/** @param {Model} m @param {Actions} actions */
function held(m, actions) {
  if (m.faults.length === 0) return html`<p class="quiet">${noFault(m)}.</p>`;
  return html`<ul class="faults" aria-label="Faults">${m.faults.map((f) => html`<li>${badge("warn", f.kind, "warn")}
    <span><b>${spokenEnd(f.source)}</b> ${f.both_ways ? "↔" : "→"} <b>${spokenEnd(f.target)}</b>${amount(f)}</span>
    ${send(actions, requests.healFault(f.fault_id), "Heal", { name: `Heal ${f.source} to ${f.target}` })}</li>`)}</ul>`;
}
