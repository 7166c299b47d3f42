// Requests of the page to the API. Each call is shown as the equivalent curl command.

import { parseExact } from "./json.js";
import { beginCall, liveRun } from "./store.js";

/**
 * @typedef {import("./store.js").State} State
 * @typedef {{method: string, path: string, body?: unknown}} Request
 * @typedef {{ok: boolean, status: number, body: any}} Answer
 */

const TOKEN_KEY = "zabka.token";
const CALL_TIMEOUT_MS = 60_000;
const TABLE_POLL_MS = 2000;
const RUN_POLL_MS = 250;
const WHAT_IF_POLL_MS = 300;

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** The curl command for a request. @param {Request} request @param {boolean} withToken */
export function curl({ method, path, body }, withToken = false) {
  const parts = ["curl"];
  if (method !== "GET") parts.push("-X", method);
  parts.push(quoted(location.origin + path));
  if (withToken) parts.push("-H", '"Authorization: Bearer $ZABKA_TOKEN"');
  if (body instanceof File) parts.push("--data-binary", quoted(`@${body.name}`));
  else if (body !== undefined) parts.push("-H", quoted("content-type: application/json"), "-d", quoted(JSON.stringify(body)));
  return parts.join(" ");
}

/** Any client may write a znode whose name is invalid in Kafka: `orders?` must not become another topic's path. @param {string} topic */
const topicPath = (topic) => `/api/v1/topics/${encodeURIComponent(topic)}`;

/** The possible requests. Each function returns the request, so that a button can show it before it is sent. */
export const requests = {
  /** @param {string} node such as broker-1 @param {string} action @returns {Request} */
  act: (node, action) => ({ method: "POST", path: `/api/v1/${node.replace("-", "s/")}/${action}` }),
  /** @param {unknown} body @returns {Request} */
  createTopic: (body) => ({ method: "POST", path: "/api/v1/topics", body }),
  /** @param {string} topic @returns {Request} */
  deleteTopic: (topic) => ({ method: "DELETE", path: topicPath(topic) }),
  /** @param {string} topic @param {Record<string, string | null>} body @returns {Request} */
  configure: (topic, body) => ({ method: "PATCH", path: `${topicPath(topic)}/config`, body }),
  /** @param {"PREFERRED" | "UNCLEAN"} type @param {{topic: string, partition: number}[]} partitions @returns {Request} */
  elect: (type, partitions) => ({ method: "POST", path: "/api/v1/elections", body: { type, partitions } }),
  /** The records of a partition, the last ones if `from` is empty. @param {string} topic @param {number} partition @param {string} from @returns {Request} */
  records: (topic, partition, from) => ({ method: "GET", path: `${topicPath(topic)}/${partition}/records?limit=20${from === "" ? "" : `&from=${from}`}` }),
  /** The authorizer and the ACLs. @returns {Request} */
  acls: () => ({ method: "GET", path: "/api/v1/acls" }),
  /** @param {unknown} body @returns {Request} */
  injectFault: (body) => ({ method: "POST", path: "/api/v1/faults", body }),
  /** Cut every link between nodes of different sides. @param {string[][]} sides @returns {Request} */
  split: (sides) => ({ method: "POST", path: "/api/v1/faults/split", body: { sides } }),
  /** @param {string} name @param {unknown} body @returns {Request} */
  addFaultSet: (name, body) => ({ method: "POST", path: `/api/v1/faults/sets/${name}`, body }),
  /** @param {string} id @returns {Request} */
  healFault: (id) => ({ method: "DELETE", path: `/api/v1/faults/${id}` }),
  /** @returns {Request} */
  healAll: () => ({ method: "POST", path: "/api/v1/faults/reset" }),
  /** Acknowledge the losses up to a number of the journal. @param {number} through_seq @returns {Request} */
  acknowledgeLosses: (through_seq) => ({ method: "POST", path: "/api/v1/losses/acknowledge", body: { through_seq } }),
  /** @param {unknown} body @returns {Request} */
  startWorkload: (body) => ({ method: "POST", path: "/api/v1/workloads", body }),
  /** @param {string} id @returns {Request} */
  stopWorkload: (id) => ({ method: "DELETE", path: `/api/v1/workloads/${id}` }),
  /** Start the stream, an audit or a campaign. @param {string} kind @param {{name?: string, definition?: string}} body @returns {Request} */
  startJob: (kind, body = {}) => ({ method: "POST", path: `/api/v1/jobs/${kind}`, body }),
  /** @param {string} kind @returns {Request} */
  stopJob: (kind) => ({ method: "DELETE", path: `/api/v1/jobs/${kind}` }),
  /** @param {string} name @returns {Request} */
  table: (name) => ({ method: "GET", path: `/api/v1/analytics/${name}?limit=20` }),
  /** @returns {Request} */
  library: () => ({ method: "GET", path: "/api/v1/scenarios" }),
  /** Run a scenario, and store the run and the run with the bug. @param {string} name @param {number | null} seed @returns {Request} */
  play: (name, seed = null) => ({ method: "POST", path: `/api/v1/scenarios/${encodeURIComponent(name)}/runs`, body: { keep: true, ...(seed === null ? {} : { seed }) } }),
  /** Run the random faults of a seed, and store the run. @param {number} seed @param {string} scenario @returns {Request} */
  playSeed: (seed, scenario) => ({ method: "POST", path: `/api/v1/seeds/${seed}/runs`, body: { scenario } }),
  /** Play a seed's stored run again with a change. @param {string} run @param {unknown} body @returns {Request} */
  fork: (run, body) => ({ method: "POST", path: `/api/v1/runs/${run}/forks`, body }),
  /** Play how likely a loss was over the time of a run. @param {string} run @returns {Request} */
  playCourse: (run) => ({ method: "POST", path: `/api/v1/runs/${run}/outcome-course` }),
  /** @param {string} run @returns {Request} */
  course: (run) => ({ method: "GET", path: `/api/v1/runs/${run}/outcome-course` }),
  /** @param {string} run @returns {Request} */
  stopCourse: (run) => ({ method: "DELETE", path: `/api/v1/runs/${run}/outcome-course` }),
  /** Store a journal, or the runs of an exported page. @param {File} file @returns {Request} */
  upload: (file) => ({ method: "POST", path: `/api/v1/runs?name=${encodeURIComponent(file.name.slice(0, 100))}`, body: file }),
  /** Run a scenario on this cluster. @param {string} name @returns {Request} */
  playLive: (name) => ({ method: "POST", path: `/api/v1/scenarios/${name}/runs`, body: { live: true } }),
  /** Ask what would happen if a node died now. @param {string} node @param {string} acks of the producers @returns {Request} */
  whatIf: (node, acks = "all") => ({ method: "POST", path: "/api/v1/what-if", body: { kill: node, acks } }),
  /** @param {string} id @returns {Request} */
  answer: (id) => ({ method: "GET", path: `/api/v1/what-if/${id}` }),
  /** Run a scenario file on this cluster, or in a simulated world, whose run is stored. @param {unknown} scenario @param {boolean} live @returns {Request} */
  playFile: (scenario, live) => ({ method: "POST", path: "/api/v1/scenario-runs", body: { scenario, ...(live ? { live } : { keep: true }) } }),
  /** @param {string} id @returns {Request} */
  stopRun: (id) => ({ method: "DELETE", path: `/api/v1/scenario-runs/${id}` }),
  /** The faults of a span of a run as a scenario file. @param {string} run @param {number} from_us @param {number} to_us @returns {Request} */
  script: (run, from_us, to_us) => ({ method: "GET", path: `/api/v1/runs/${run}/script?from=${from_us}&to=${to_us}` }),
  /** The runs on this cluster that have not ended. @returns {Request} */
  liveRuns: () => ({ method: "GET", path: "/api/v1/scenario-runs?live=true" }),
  /** @param {unknown} body @returns {Request} */
  resetCluster: (body) => ({ method: "POST", path: "/api/v1/resets", body }),
  /** @param {string} id @returns {Request} */
  reset: (id) => ({ method: "GET", path: `/api/v1/resets/${id}` }),
  /** @param {string} id @returns {Request} */
  run: (id) => ({ method: "GET", path: `/api/v1/scenario-runs/${id}` }),
};

/** The calls, for one state. */
export class Actions {
  /**
   * @param {State} state @param {() => void} changed draws the page again
   * @param {() => void} refresh asks the API for its view at once
   */
  constructor(state, changed, refresh) {
    this.state = state;
    this.changed = changed;
    this.refresh = refresh;
    /** @type {{request: Request, refusal: Answer, resolve: (answer: Answer | null | Promise<Answer | null>) => void} | null} The request that waits for a token. */
    this.waiting = null;
    /** @type {"" | "past" | "silent" | "recorded"} Why nothing can be changed: a past moment is shown, the API does not respond, or there is no cluster. */
    this.off = "";
    this.readsLiveRuns = false;
    /** The run whose course was looked for last. */
    this.courseOf = "";
  }

  /** Why nothing can be changed, as a sentence; empty if changes are possible. */
  get why() {
    return { "": "", past: "the page shows a past moment, which cannot be changed; press End to go back to live", silent: "the API does not respond", recorded: "this page shows recorded runs and has no cluster" }[this.off];
  }

  /** Whether a request may be sent: runs in a simulated world do not touch the cluster. @param {Request} request */
  allows({ method, path, body }) {
    if (this.off === "recorded") return false;
    if (this.off === "silent") return method === "GET";
    const live = typeof body === "object" && body !== null && "live" in body && body.live === true;
    return !this.off || method === "GET" || (!live && /^\/api\/v1\/(scenarios|scenario-runs|seeds|runs)\b/.test(path));
  }

  /** Send a request, and show its result in the list of calls. If the API requires a token, the answer is that to the repeated request with the token. @param {Request} request @returns {Promise<Answer | null>} */
  async send(request) {
    const token = sessionStorage.getItem(TOKEN_KEY);
    const call = beginCall(this.state, curl(request, token !== null));
    this.changed();
    if (!this.allows(request)) {
      Object.assign(call, { ok: false, text: `not sent: ${this.why}` });
      return null;
    }
    const answer = await this.#fetch(request, token).catch((reason) => {
      Object.assign(call, { ok: false, text: `no response: ${reason instanceof Error ? reason.message : reason}` });
      return null;
    });
    if (answer !== null) Object.assign(call, { ok: answer.ok, status: answer.status, text: outcome(answer) });
    if (answer?.status === 401) {
      sessionStorage.removeItem(TOKEN_KEY);
      return this.#waitForToken(request, answer);
    }
    if (answer?.ok && answer.body?.scenario && answer.body.state) void this.#followRun(answer.body);
    this.changed();
    this.refresh();
    return answer;
  }

  /** Ask for the token. The answer is the refusal if there is no token, or another request waits instead. @param {Request} request @param {Answer} refusal @returns {Promise<Answer | null>} */
  #waitForToken(request, refusal) {
    this.forgetToken();
    this.state.ui.token = true;
    this.changed();
    this.refresh();
    return new Promise((resolve) => {
      this.waiting = { request, refusal, resolve };
    });
  }

  /** Store the token that the API asked for in this tab, and send the waiting request. @param {string} token */
  useToken(token) {
    sessionStorage.setItem(TOKEN_KEY, token);
    const waiting = this.waiting;
    this.waiting = null;
    this.forgetToken();
    waiting?.resolve(this.send(waiting.request));
  }

  /** Drop the waiting request if the user does not know the token. */
  forgetToken() {
    this.waiting?.resolve(this.waiting.refusal);
    this.waiting = null;
    this.state.ui.token = false;
    this.changed();
  }

  /** Send a request that changes nothing, without showing it. @param {Request} request @returns {Promise<Answer | null>} */
  read(request) {
    return this.#fetch(request, null).catch(() => null);
  }

  /** Load the outage library. */
  async loadScenarios() {
    const scenarios = this.state.scenarios;
    if (scenarios.state === "loading" || scenarios.state === "ready") return;
    scenarios.state = "loading";
    this.changed();
    const answer = await this.#fetch(requests.library(), null).catch(() => null);
    if (answer?.ok) Object.assign(scenarios, { state: "ready", list: answer.body, message: "" });
    else Object.assign(scenarios, { state: "idle", message: answer === null ? "the API does not respond" : outcome(answer) });
    this.changed();
  }

  /** Find a run on this cluster that another page started, or this page before it was loaded, and follow it. */
  async readLiveRuns() {
    if (this.readsLiveRuns || liveRun(this.state.scenarios) !== null) return;
    this.readsLiveRuns = true;
    const answer = await this.read(requests.liveRuns());
    this.readsLiveRuns = false;
    if (!answer?.ok || answer.body.length === 0) return;
    void this.#followRun(answer.body[0]);
    this.changed();
  }

  /**
   * Poll the state of a run until it has ended or another run replaces it. A run on this cluster is not replaced before it
   * has ended, because the page shows its progress and stops it. @param {any} run
   */
  async #followRun(run) {
    const scenarios = this.state.scenarios;
    const slot = run.live ? "live_run" : "run";
    if (scenarios[slot]?.id === run.id || (run.live && liveRun(scenarios) !== null)) return;
    scenarios[slot] = run;
    while (scenarios[slot].id === run.id && scenarios[slot].state !== "ended") {
      await new Promise((resolve) => setTimeout(resolve, RUN_POLL_MS));
      const answer = await this.#fetch(requests.run(run.id), null).catch(() => null);
      if (scenarios[slot].id !== run.id || answer === null) continue;
      scenarios[slot] = answer.ok ? answer.body : { ...run, state: "ended", error: outcome(answer) };
      this.changed();
    }
  }

  /** Ask what would happen if a node died now, and follow the answer until it is complete or closed. @param {string} node @param {string} acks */
  async askWhatIf(node, acks = "all") {
    /** @type {import("./views/what_if.js").WhatIf} */
    const shown = { node, acks, asked: null, error: "" };
    this.state.what_if = shown;
    this.changed();
    const answer = await this.send(requests.whatIf(node, acks));
    if (answer?.ok) shown.asked = answer.body;
    else if (answer?.status === 401) return void (this.state.what_if === shown && this.closeWhatIf());
    else shown.error = answer ? outcome(answer) : this.why || "the API does not respond";
    this.changed();
    while (this.state.what_if === shown && shown.asked?.state === "running") {
      await new Promise((resolve) => setTimeout(resolve, WHAT_IF_POLL_MS));
      const found = await this.#fetch(requests.answer(shown.asked.id), null).catch(() => null);
      if (found?.ok) shown.asked = found.body;
      else if (found) shown.error = outcome(found);
      if (shown.error) break;
      this.changed();
    }
    this.changed();
  }

  /** Close the answer to a what-if question. */
  closeWhatIf() {
    this.state.what_if = null;
    this.changed();
  }

  /** Play how likely a loss was over the time of a run, and follow the points until all are played. @param {string} run */
  async playCourse(run) {
    /** @type {import("./tracks/course.js").Course} */
    const shown = { run, found: null, error: "" };
    this.state.course = shown;
    const answer = await this.send(requests.playCourse(run));
    if (answer?.ok) shown.found = answer.body;
    else shown.error = answer ? outcome(answer) : this.why || "the API does not respond";
    await this.#followCourse(shown);
  }

  /** Find the course of a run that was requested before this page was loaded, or on another page. @param {string} run the run that is shown */
  async findCourse(run) {
    if (this.courseOf === run) return;
    this.courseOf = run;
    if (this.state.course?.run === run) return;
    const answer = await this.read(requests.course(run));
    if (answer === null && this.courseOf === run) this.courseOf = "";
    if (!answer?.body?.state || this.courseOf !== run || this.state.course?.run === run) return;
    await this.#followCourse((this.state.course = { run, found: answer.body, error: "" }));
  }

  /** Follow the points of a course until all are played, or another course is shown. @param {import("./tracks/course.js").Course} shown */
  async #followCourse(shown) {
    while (this.state.course === shown && shown.found?.state === "running" && !shown.error) {
      this.changed();
      await new Promise((resolve) => setTimeout(resolve, WHAT_IF_POLL_MS));
      const found = await this.read(requests.course(shown.run));
      if (found?.ok) shown.found = found.body;
      else if (found) shown.error = outcome(found);
    }
    this.changed();
  }

  /** Load one of the Spark tables. @param {string} name */
  async loadTable(name) {
    const analytics = this.state.analytics;
    Object.assign(analytics, { name, state: "loading", message: "", command: null, table: null });
    this.changed();
    const answer = await this.#fetch(requests.table(name), null).catch(() => null);
    if (analytics.name !== name) return;
    if (answer?.ok) {
      Object.assign(analytics, { state: "ready", table: answer.body });
      void this.#followTable(answer.body);
    } else {
      const message = answer === null ? "the API does not respond" : outcome(answer);
      Object.assign(analytics, { state: "absent", message, command: answer?.body?.command ?? null });
    }
    this.changed();
  }

  /** Refresh a table while it is shown, if a stream updates it. @param {any} table */
  async #followTable(table) {
    const analytics = this.state.analytics;
    while (analytics.table === table && table.lag_ms !== null) {
      await new Promise((resolve) => setTimeout(resolve, TABLE_POLL_MS));
      const answer = document.hidden ? null : await this.#fetch(requests.table(table.table), null).catch(() => null);
      if (analytics.table !== table) return;
      if (answer?.ok) analytics.table = table = answer.body;
      this.changed();
    }
  }

  /** @param {Request} request @param {string | null} token @returns {Promise<Answer>} */
  async #fetch({ method, path, body }, token) {
    /** @type {Record<string, string>} */
    const headers = { "zabka-requester": "page" };
    const file = body instanceof File;
    if (body !== undefined) headers["content-type"] = file ? "application/x-ndjson" : "application/json";
    if (token !== null) headers.authorization = `Bearer ${token}`;
    const answer = await fetch(path, {
      method, headers, body: body === undefined ? null : file ? body : JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
    const text = await answer.text();
    const isJson = /json/.test(answer.headers.get("content-type") ?? "");
    return { ok: answer.ok, status: answer.status, body: text && isJson ? parseExact(text) : null };
  }
}

/** The result of a call in words: the detail of an RFC 9457 problem, or the new state. @param {Answer} answer */
export function outcome({ ok, status, body }) {
  if (!ok) return body?.detail ?? body?.title ?? `HTTP ${status}`;
  if (Array.isArray(body)) {
    const missed = body.filter((row) => row.error).map((row) => `${row.topic}-${row.partition}: ${row.error}`);
    return missed.length ? missed.join(", ") : "done";
  }
  if (body?.process) return `${body.node} is ${body.process}${body.pid ? `, pid ${body.pid}` : ""}`;
  if (status === 202) return "accepted";
  return "done";
}
