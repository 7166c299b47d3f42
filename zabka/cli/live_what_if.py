"""`zabka what-if --on URL --kill NODE`: the forecast of a running cluster for the death of a node."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from zabka.agent.http_call import NoAnswer, call
from zabka.cli.forecast import BUDGET_S, FUTURES_MAX, JOBS_MAX, Forecast, Times, forecasts
from zabka.cli.simulate import print_line
from zabka.simulation.mirror.live_state import LiveState, NoMirror

STDIN = "-"
ACKS = {"all": -1, "-1": -1, "1": 1}
BUDGETS_S = (1.0, 600.0)
POLL_S = 0.25
ANSWER_S = 15.0
SPARE_S = 30.0
"""Seconds beyond the budget for which the API's answer is awaited."""


class NoForecast(Exception):
    """There is no forecast. The message is the reason."""


class LiveQuestion(NamedTuple):
    """The question: what would happen if the node died now."""

    kill: str
    acks: str = "all"
    budget_s: float = BUDGET_S
    jobs: int | None = None
    futures: int = 0
    """Maximum number of futures; 0 for as many as the budget allows."""


def forecast_state(file: str, question: LiveQuestion, *, as_json: bool) -> None:
    """Run futures of the state in a file, or on standard input, and print the forecast.  Raises NoForecast.

    As JSON, one line is printed after each future, and the last line is final.
    """
    try:
        text = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        state = msgspec.json.decode(text, type=LiveState)
    except (OSError, msgspec.MsgspecError) as reason:
        raise NoForecast(f"--state {file}: {reason}") from None
    jobs = question.jobs or min(JOBS_MAX, os.cpu_count() or 1)
    last: Forecast | None = None
    # The API's child has spent a part of the budget on its own start.
    spent_s = _age_s() if file == STDIN else 0.0
    try:
        for last in forecasts(
            state, question.kill, ACKS[question.acks],
            budget_s=question.budget_s - spent_s, jobs=jobs, count=question.futures or FUTURES_MAX,
        ):  # fmt: skip
            if as_json:
                print_line(msgspec.json.encode(last).decode())
                sys.stdout.flush()
    except NoMirror as reason:
        raise NoForecast(str(reason)) from None
    if last is not None and not as_json:
        for line in table(last):
            print_line(line)


def _age_s() -> float:
    """Return the seconds since this process started, or its CPU time on systems without /proc."""
    try:
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return float(Path("/proc/uptime").read_text().split()[0]) - started
    except (OSError, ValueError, IndexError):
        return time.process_time()


def forecast_on(url: str, token: str | None, question: LiveQuestion, *, as_json: bool) -> None:
    """Ask the API of a running cluster, show its progress, and print the forecast.  Raises NoForecast."""
    base = url.rstrip("/")
    headers = {"Content-Type": "application/json", **({} if token is None else {"Authorization": f"Bearer {token}"})}
    body = json.dumps({"kill": question.kill, "acks": question.acks, "budget_s": question.budget_s}).encode()
    asked = _asked("POST", f"{base}/api/v1/what-if", body, headers)
    deadline_s = time.monotonic() + question.budget_s + SPARE_S
    is_shown = sys.stderr.isatty()
    while asked["state"] != "ended":
        if time.monotonic() > deadline_s:
            raise NoForecast(f"the API at {url} did not end the forecast in time")
        time.sleep(POLL_S)
        asked = _asked("GET", f"{base}/api/v1/what-if/{asked['id']}", b"", headers)
        if is_shown:
            count = (asked["forecast"] or {"futures": 0})["futures"]
            print(f"\r{count} futures", end="", file=sys.stderr, flush=True)  # noqa: T201
    if is_shown:
        print("\r", end="", file=sys.stderr)  # noqa: T201
    if asked["error"] is not None or asked["forecast"] is None:
        raise NoForecast(asked["error"] or "no future ended in the time")
    if as_json:
        print_line(json.dumps(asked, indent=2))
        return
    for line in table(msgspec.convert(asked["forecast"], Forecast)):
        print_line(line)


def _asked(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    try:
        answer = call(method, url, body, headers, timeout_s=ANSWER_S)
        found = json.loads(answer.body)
    except (NoAnswer, ValueError) as reason:
        raise NoForecast(f"there is no cluster at {url!r}: {reason}") from None
    if not answer.is_success:
        raise NoForecast(str(found.get("detail", found)) if isinstance(found, dict) else str(found))
    if not isinstance(found, dict) or "state" not in found:
        raise NoForecast(f"there is no cluster at {url!r}: the reply is not zabka's")
    return found


def table(found: Forecast) -> Iterator[str]:
    """Yield the lines of a forecast."""
    read = datetime.fromtimestamp(found.read_at_us / 1_000_000, UTC).isoformat(sep=" ", timespec="seconds")
    yield f"if {found.killed} died (state read at {read}, {found.futures} futures, producers with acks={found.acks})"
    lost = found.lost
    share = f"{lost.count} of {found.futures} futures ({100 * lost.low:.0f} to {100 * lost.high:.0f} %)"
    yield f"  {'acknowledged records are lost':40}  {share}"
    rows = (
        ("a controller exists after", found.controller),
        ("all partitions are writable after", found.writable),
        ("the ensemble has a quorum after", found.quorum),
    )
    for title, times in rows:
        yield f"  {title:40}  {times_text(times, found.futures)}"
    for name, count in found.unwritable.items():
        yield f"  {name} is not writable until {found.killed} returns, in {count} of {found.futures} futures"
    if found.problems:
        yield f"  an invariant is violated in {found.problems} futures: please report this"
    yield "not taken over from the live cluster:"
    yield from (f"  {limit}" for limit in found.limits)


def times_text(times: Times, futures: int) -> str:
    """Return a distribution of times as text."""
    if times.never == futures:
        return "never in any future"
    if times.longest_ms == 0 and not times.never:
        return "no interruption"
    parts = [
        f"{name} {_seconds(value)}"
        for name, value in (("median", times.median_ms), ("90 %", times.p90_ms), ("longest", times.longest_ms))
    ]
    return ", ".join([*parts, *([f"never in {times.never}"] if times.never else [])])


def _seconds(ms: int | None) -> str:
    return "never" if ms is None else f"{ms / 1000:.1f} s"
