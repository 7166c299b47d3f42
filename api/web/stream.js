// Data that the API sends: the journal, as one EventSource, and once a second the response of GET /cluster.

import { parseExact } from "./json.js";

/**
 * @typedef {import("./fold.js").Entry} Entry
 * @typedef {{snapshot: (cluster: import("./fold.js").ClusterState, seq: number) => void,
 *   entry: (entry: Entry) => boolean, link: (state: "live" | "reconnecting") => void}} Handlers
 */

const EVENTS = "/api/v1/events?snapshot=true";
const REOPEN_MS = 1000;
const POLL_MS = 1000;
const POLL_TIMEOUT_MS = 4000;

/**
 * Follow the journal. The browser itself reconnects and resumes by Last-Event-ID; if the server cannot resume, it sends
 * a snapshot. In three cases a new stream begins, with a snapshot: the browser gives up (an error status), numbers are
 * missing, or the numbers belong to another history (the cluster was created again while this browser slept).
 * @param {Handlers} handlers
 */
export function follow(handlers) {
  /** @type {EventSource} */
  let source;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  function reopen(delayMs = 0) {
    source.close();
    clearTimeout(timer);
    timer = setTimeout(open, delayMs);
  }

  function open() {
    source = new EventSource(EVENTS);
    const current = source;
    /** @type {string | null} */
    let history = null;
    source.addEventListener("open", () => handlers.link("live"));
    source.addEventListener("error", () => {
      handlers.link("reconnecting");
      if (current.readyState === EventSource.CLOSED) reopen(REOPEN_MS);
    });
    source.addEventListener("history", (message) => {
      history ??= message.data;
      if (history !== message.data) reopen();
    });
    source.addEventListener("snapshot", (message) => {
      handlers.snapshot(parseExact(message.data), Number(message.lastEventId));
    });
    source.addEventListener("message", (message) => {
      if (current === source && !handlers.entry(parseExact(message.data))) reopen(REOPEN_MS);
    });
  }

  open();
}

/**
 * The newest events up to a number, without these types. Under load nineteen of twenty events only report progress: the API
 * leaves them out, however far back it has to search.
 * @param {number} seq @param {number} limit @param {string[]} notTypes @returns {Promise<Entry[]>} in order
 */
export async function historyUpTo(seq, limit, notTypes) {
  try {
    const answer = await fetch(`/api/v1/journal?until=${seq}&limit=${limit}&not_types=${notTypes.join(",")}`);
    return answer.ok ? parseExact(await answer.text()) : [];
  } catch {
    return []; // The API went away meanwhile; the stream reports it.
  }
}

/**
 * Request the whole cluster once a second while the page is visible, one call at a time.
 * @param {(cluster: any, wallMs: number, askedMs: number) => void} onAnswer @param {(problem: string) => void} onProblem
 * @returns {() => void} asks at once
 */
export function poll(onAnswer, onProblem) {
  let busy = false;
  let again = false;

  async function ask() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    const askedMs = Date.now();
    try {
      const answer = await fetch("/api/v1/cluster", { signal: AbortSignal.timeout(POLL_TIMEOUT_MS), cache: "no-store" });
      if (!answer.ok) throw new Error(`the API returned ${answer.status}`);
      const date = Date.parse(answer.headers.get("date") ?? "");
      onAnswer(parseExact(await answer.text()), date, askedMs);
    } catch (reason) {
      onProblem(reason instanceof Error && reason.name === "TimeoutError" ? "the API does not respond" : String(reason));
    }
    busy = false;
    if (again) {
      again = false;
      void ask();
    }
  }

  setInterval(() => document.hidden || void ask(), POLL_MS);
  document.addEventListener("visibilitychange", () => document.hidden || void ask());
  void ask();
  return () => void ask();
}
