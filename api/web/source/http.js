// Runs from the API of a cluster.

import { requests } from "../actions.js";
import { parseExact } from "../json.js";
import { playKept } from "../lessons/play.js";
import { TABS } from "../time/hash.js";
import { NoMoment } from "./no_moment.js";

/** @typedef {import("./source.js").Source} Source */

const SENTENCES = "/web/sentences.json";

/** @implements {Source} */
export class HttpSource {
  live = true;
  opening = {};
  tabs = TABS;

  async sentences() {
    const answer = await fetch(SENTENCES);
    if (!answer.ok) throw new NoMoment(`the API returned ${answer.status}`);
    return answer.json();
  }

  runs() {
    return read("/runs");
  }

  /** @param {string} run @param {AbortSignal | null} signal */
  info(run, signal = null) {
    return read(`/runs/${run}`, signal);
  }

  /** @param {string} run @param {import("./source.js").Query} query */
  async events(run, query) {
    const asked = Object.entries(query).map(([name, value]) => `${name}=${value}`).join("&");
    const { value, answer } = await ask(`/runs/${run}/journal?${asked}`);
    return { entries: value, through: Number(answer.headers.get("x-looked-through")) };
  }

  /** @param {string} run @param {number} seq @param {AbortSignal | null} signal */
  async state(run, seq, signal = null) {
    return (await read(`/runs/${run}/state?at=${seq}`, signal)).state;
  }

  /** @param {string} run @param {number} bins @param {string[]} lanes @param {number | null} to_us */
  spans(run, bins, lanes, to_us = null) {
    return read(`/runs/${run}/spans?${to_us === null ? "" : `to=${to_us}&`}bins=${bins}&lanes=${lanes.join()}`);
  }

  /** @param {string} run @param {number} seq */
  why(run, seq) {
    return read(`/runs/${run}/why?seq=${seq}`);
  }

  /** @param {string} run @param {string} other */
  divergence(run, other) {
    return read(`/runs/${run}/divergence?from=${other}`);
  }

  /** @param {string} run */
  incidents(run) {
    return read(`/runs/${run}/incidents`);
  }

  /** @param {string} run @param {number} from_us @param {number} to_us @param {string[]} classes @param {number} limit */
  messages(run, from_us, to_us, classes, limit) {
    return read(`/runs/${run}/messages?from_us=${from_us}&to_us=${to_us}&classes=${classes.join()}&limit=${limit}`);
  }

  lessons() {
    return read("/lessons");
  }

  /** @param {string} lesson @param {string} run */
  answer(lesson, run) {
    return read(`/lessons/${lesson}/answer?run=${run}`);
  }

  /** @param {string} scenario @param {number | null} seed @param {import("../actions.js").Actions} actions */
  async play(scenario, seed, actions) {
    if (seed === null) return playKept(requests.play(scenario), actions);
    /** @type {{name: string}[]} */
    const library = await read("/scenarios");
    const scripted = library.some(({ name }) => name === scenario);
    return playKept(scripted ? requests.play(scenario, seed) : requests.playSeed(seed, scenario), actions);
  }

  /** @param {string} run @param {{from_us: number, to_us: number} | null} time @param {string} format */
  async download(run, time, format) {
    const answer = await fetch(`/api/v1/runs/${run}/export?format=${format}${time === null ? "" : `&from=${time.from_us}&to=${time.to_us}`}`).catch(() => null);
    if (answer === null) throw new NoMoment("the API does not respond");
    if (!answer.ok) throw new NoMoment(`this run cannot be downloaded: ${(await answer.json().catch(() => null))?.detail ?? answer.status}`);
    const name = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1];
    return new File([await answer.blob()], name ?? `${run}.${format}`);
  }

  /** Upload a journal or an exported run. @param {File} file @param {import("../actions.js").Actions} actions */
  async open(file, actions) {
    const answer = await actions.send(requests.upload(file));
    if (answer === null || !answer.ok) throw new NoMoment(answer?.body?.detail ?? "the API does not respond");
    return answer.body.id;
  }

  /** @param {import("../why/rule.js").Rule["source"]} rule */
  code({ path, symbol }) {
    return `/source/${path}#${encodeURIComponent(symbol)}`;
  }
}

/** The response of the API for a path. @param {string} path @param {AbortSignal | null} signal cancels the request @returns {Promise<any>} Raises NoMoment. */
export const read = async (path, signal = null) => (await ask(path, signal)).value;

/** @param {string} path @param {AbortSignal | null} signal @returns {Promise<{value: any, answer: Response}>} Raises NoMoment. */
async function ask(path, signal = null) {
  const answer = await fetch(`/api/v1${path}`, { signal }).catch(() => null);
  const text = await answer?.text().catch(() => null);
  if (signal?.reason instanceof NoMoment) throw signal.reason;
  if (!answer || typeof text !== "string") throw new NoMoment(signal?.aborted ? "another moment was requested" : "the API does not respond");
  if (answer.ok) return { value: parseExact(text), answer };
  /** @type {any} */
  let problem = null;
  try {
    problem = JSON.parse(text);
  } catch {
    // Not a problem document: use the status.
  }
  throw new NoMoment(problem?.detail ?? problem?.title ?? `the API returned ${answer.status}`, problem?.oldest ?? null);
}
