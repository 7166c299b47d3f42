"""`make bench-page`: times of the page for drawing, seeking and showing new events.

draw      all tracks of 10,000 spans in one window, 50 times; and the diagram of 5,000 messages.
seek      100 random moments of a live journal of 20,000 events, from the request to the state, and to the drawn page.
event     1,000 events a second: from the time a node wrote an event until the page has drawn it.
kill      real processes, three peers and three brokers: from the click on Kill until the page shows the node as down.

Times are taken in the page, by its own clock; `processor` is the CPU time of the browser's main thread. Long tasks are
tasks that blocked this thread for more than 50 ms.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.browser.chromium import launched
from tests.browser.page_server import PageServer, write_healthy_cluster
from tests.browser.test_page import card
from zabka.journal import events as e
from zabka.testing.live.start import start_live, stop_live

PARTITIONS = 12
EVENTS = 20_000
SEEKS = 100
DRAWS = 50
PER_S = 1_000
RUN_S = 10
KILLS = 20
PROGRAMS = (Path(__file__).parent / "js" / "page_times.js").read_text().rstrip()


def ask(page: Page, program: str, argument: object = None) -> Any:
    """Run one of the page's benchmark functions, and return its result."""
    return page.evaluate(f"(argument) => {PROGRAMS}.{program}(argument)", argument)


def of(times: list[float]) -> str:
    """Format the median, 95th percentile and maximum of these times, in ms."""
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return f"median {statistics.median(ordered):6.1f} ms, p95 {p95:6.1f} ms, worst {ordered[-1]:6.1f} ms"


class Busy:
    """CPU time of the browser's main thread. It does not include other processes."""

    def __init__(self, page: Page) -> None:
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def ms(self) -> float:
        """Return the CPU time that the browser's main thread has used since the page was opened, in ms."""
        found = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(metric["value"]) for metric in found if metric["name"] == "TaskDuration") * 1000


class LongTasks:
    """Tasks of the main thread that took more than 50 ms, as reported by the Long Tasks API."""

    def __init__(self, page: Page) -> None:
        self._page = page
        page.evaluate(
            "() => { window.longTasks = []; new PerformanceObserver((list) => window.longTasks.push("
            "...list.getEntries().map((task) => task.duration))).observe({type: 'longtask'}); }"
        )

    def __str__(self) -> str:
        found = self._page.evaluate("() => window.longTasks")
        return f"{len(found)} long tasks, longest {max(found, default=0):.0f} ms"


def many_events(count: int, seed: int = 1) -> Iterator[tuple[str, e.Event]]:
    """Yield events as a cluster under load writes them: about two of three report replica progress."""
    draws = random.Random(seed)
    epochs = dict.fromkeys(range(PARTITIONS), 4)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for number in range(count):
        broker, partition = draws.randint(1, 3), draws.randrange(PARTITIONS)
        kind = draws.random()
        ends[partition] += 1
        if kind < 0.65:
            yield f"broker-{broker}", e.ReplicaProgressed(broker, [("many", partition, number, ends[partition])])
        elif kind < 0.8:
            isr = sorted({broker, draws.randint(1, 3)})
            epochs[partition] += 1
            yield "broker-1", e.IsrChanged("many", partition, isr, isr[0], epochs[partition], number, "caught_up")
        elif kind < 0.9:
            epochs[partition] += 1
            yield (
                "broker-1",
                e.LeaderElected(
                    "many", partition, broker, epochs[partition], [broker], [1, 2, 3], number, 3, False, "offline"
                ),
            )
        else:
            yield f"broker-{broker}", e.ControllerBelieved(broker, 1, 3, broker == 1)


def write_many_events(server: PageServer, count: int) -> None:
    """Write a journal with `count` events of a running cluster."""
    server.agent.write("broker-1", e.TopicCreated("many", "id2", {n: [1, 2, 3] for n in range(PARTITIONS)}))
    for node, event in many_events(count):
        server.agent.write(node, event)
    server.settle(120)


@contextmanager
def page_of(browser: Browser, url: str, width: int = 1440, height: int = 900) -> Iterator[Page]:
    """Open a page in a new browser context."""
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(url)
    yield page
    context.close()


@contextmanager
def serving(events: int = 0) -> Iterator[PageServer]:
    """Yield a server for a cluster whose journals are written by hand."""
    with tempfile.TemporaryDirectory(prefix="zabka-page-") as directory:
        server = PageServer(Path(directory), served_max=100_000).start()
        try:
            write_healthy_cluster(server)
            if events:
                write_many_events(server, events)
            yield server
        finally:
            server.stop()


def measure_draws(browser: Browser) -> None:
    """Measure how long drawing the tracks and the message diagram takes."""
    with serving() as server:
        for width, height in ((1440, 900), (1920, 1080)):
            with page_of(browser, server.url, width, height) as page:
                expect(card(page, "Broker 1")).to_be_visible()
                busy = Busy(page)
                before = busy.ms()
                found = ask(page, "draw", {"draws": DRAWS, "spans": 10_000})
                spent = (busy.ms() - before) / DRAWS
                typer.echo(f"draw {width}x{height}: {found['count']} spans in {found['rows']} rows, {DRAWS} draws")
                typer.echo(f"  calls alone      {of([each[0] for each in found['times']])}")
                typer.echo(
                    f"  with the raster  {of([each[1] for each in found['times']])}; processor {spent:.1f} ms a draw"
                )
                for messages in (1_000, 5_000):
                    before = busy.ms()
                    times = ask(page, "diagram", {"draws": DRAWS, "messages": messages})
                    spent = (busy.ms() - before) / DRAWS
                    typer.echo(f"messages {width}x{height}: {messages}; processor {spent:.1f} ms a draw")
                    typer.echo(f"  placing          {of([each[0] for each in times])}")
                    typer.echo(f"  drawing          {of([each[1] for each in times])}")
                    typer.echo(f"  with the raster  {of([each[2] for each in times])}")


def measure_seeks(browser: Browser) -> None:
    """Measure how long jumps to random moments of a long journal take."""
    with serving(EVENTS) as server, page_of(browser, server.url) as page:
        expect(card(page, "Broker 1")).to_be_visible()
        last = server.last_seq
        numbers = random.Random(7).sample(range(1, last), SEEKS)
        busy = Busy(page)
        before, long_tasks = busy.ms(), LongTasks(page)
        times = ask(page, "seek", numbers)
        typer.echo(
            f"seek: {SEEKS} random moments of {last} events; processor {(busy.ms() - before) / SEEKS:.1f} ms a seek"
        )
        typer.echo(f"  to the state     {of([each[0] for each in times])}")
        typer.echo(f"  to the page      {of([each[1] for each in times])}; {long_tasks}")


def measure_events(browser: Browser) -> None:
    """Measure the time from writing an event to a journal until the page has drawn it."""
    with serving() as server, page_of(browser, server.url) as page:
        expect(card(page, "Broker 1")).to_be_visible()
        ask(page, "hear")
        over = threading.Event()

        def write_events() -> None:
            for place, (node, event) in enumerate(many_events(PER_S * (RUN_S + 2))):
                server.agent.write(node, event)
                if place % 10 == 9:
                    time.sleep(10 / PER_S)
                if over.is_set():
                    return

        server.agent.write("broker-1", e.TopicCreated("many", "id2", {n: [1, 2, 3] for n in range(PARTITIONS)}))
        telling = threading.Thread(target=write_events)
        telling.start()
        busy = Busy(page)
        before, long_tasks = busy.ms(), LongTasks(page)
        took = ask(page, "events", RUN_S)
        spent = busy.ms() - before
        over.set()
        telling.join()
        typer.echo(
            f"event to pixel: {len(took) / RUN_S:.0f} events/s for {RUN_S} s; processor {spent / RUN_S / 10:.0f} %"
        )
        typer.echo(f"  {of(took)}; {long_tasks}")


def measure_kills(browser: Browser) -> None:
    """Measure the time from a click on Kill until the page shows the node as down, with real processes."""
    with tempfile.TemporaryDirectory(prefix="zabka-page-") as directory:
        cluster = start_live(Path(directory))
        try:
            with page_of(browser, cluster.url) as page:
                took = []
                for _ in range(KILLS):
                    broker = cluster.until(lambda: cluster.controller)
                    expect(card(page, f"Broker {broker.id}").locator(".process")).to_contain_text("running")
                    took.append(ask(page, "kill", broker.id))
                    cluster.heal()
                typer.echo(f"kill to pixel: {KILLS} controllers of 3 x 3\n  {of(took)}")
        finally:
            stop_live(cluster)


MEASURED: dict[str, Callable[[Browser], None]] = {
    "draw": measure_draws,
    "seek": measure_seeks,
    "event": measure_events,
    "kill": measure_kills,
}


def main(
    what: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(MEASURED)}; none for all")] = None,
) -> None:
    """Run the measurements and print the results."""
    unknown = [each for each in what or [] if each not in MEASURED]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]}: there are {', '.join(MEASURED)}")
    browsers: Iterator[Any] = launched()
    try:
        browser = next(browsers)
    except pytest.skip.Exception as reason:
        typer.echo(f"bench page: {reason}", err=True)
        raise typer.Exit(1) from None
    try:
        for name in what or MEASURED:
            MEASURED[name](browser)
            typer.echo(f"load after {name}: {os.getloadavg()[0]:.1f}, of {os.cpu_count()} processors")
    finally:
        next(browsers, None)
