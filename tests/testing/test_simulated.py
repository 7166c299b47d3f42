"""The decorator `simulated`: seeds, faults, notes that a test writes, and the report of a seed that fails."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zabka.journal.events import FaultInjected, ProgramLogged, ProgramNoted
from zabka.simulation.faults.program_faults import BROKER_FAULTS, MIXES, UnknownFaults, kinds_of
from zabka.simulation.jitter import Span, spans_of, text_of, without
from zabka.testing import ClusterFailed, SimulatedWorld, simulated
from zabka.testing.worlds import shrinking
from zabka.testing.worlds.decorator import Selection, numbers_of, numbers_text, selected, texts_of
from zabka.testing.worlds.finding import Command
from zabka.testing.worlds.seed_test import Parameters, run_seed
from zabka.testing.worlds.world import TEST

ALONE: dict[str, Any] = {"peers": 1, "brokers": 0}
COMMAND = Command("the-test", lambda seed, chosen: " ".join(["run", str(seed), *texts_of(chosen).values()]))
LOG = logging.getLogger("till")


@pytest.fixture(autouse=True)
def in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with selected(Selection(COMMAND)):
        yield


def parameters(**given: Any) -> Parameters:
    usual = {"seeds": 1, **ALONE, "faults": None, "faults_s": 20.0, "limit_s": 600.0, "settings": {}}
    values = {**usual, **given}
    if values["faults"] is not None:
        values["faults"] = kinds_of(values["faults"], values["brokers"])
    return Parameters(**values)


def report_of(run: Callable[[], None]) -> str:
    with pytest.raises(AssertionError) as caught:
        run()
    return "\n".join(caught.value.__notes__)


def test_every_seed_runs_once_in_its_own_world() -> None:
    seen: list[tuple[int, float]] = []

    @simulated(seeds=3, **ALONE)
    async def draw(world: SimulatedWorld) -> None:
        await asyncio.sleep(1)
        seen.append((world.seed, random.random()))

    draw()
    assert [seed for seed, _ in seen] == [0, 1, 2]
    assert len({drawn for _, drawn in seen}) == 3


def test_failing_seed_is_reported_with_its_replay_and_journal(tmp_path: Path) -> None:
    @simulated(seeds=5, **ALONE)
    async def sell(world: SimulatedWorld) -> None:
        async def till(_: str) -> None:
            LOG.info("sold at %.1f", asyncio.get_running_loop().time())
            sold = world.note("sold", order=7)
            world.note("billed", order=7, because=sold)
            await asyncio.sleep(3_600)

        world.start("till", till)
        await asyncio.sleep(2)
        assert world.seed < 3, "no change"

    text = report_of(sell)
    assert "the-test fails with seed 3 and no faults; run 3 times" in text
    assert "till: started as program" in text
    assert "till: logs INFO till: sold at" in text
    assert "till: billed: order=7" in text
    assert "test-function: AssertionError: no change" in text
    assert "  run 3 none" in text
    journal = tmp_path / ".zabka-seeds" / "the-test-seed-3.jsonl"
    assert b'"type":"program_noted"' in journal.read_bytes()
    command = [sys.executable, "-m", "zabka.cli.main", "why", "billed", "--journal", str(journal)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "because" in done.stdout and "sold: order=7" in done.stdout


def test_shrinking_removes_faults_not_needed_for_the_failure() -> None:
    @simulated(seeds=1, peers=1, brokers=1, faults="kill_program,pause_program")
    async def count(world: SimulatedWorld) -> None:
        starts: list[int] = []

        async def worker(_: str) -> None:
            starts.append(1)
            await asyncio.sleep(3_600)

        world.start("worker", worker, restarts=True)
        await asyncio.sleep(40)
        assert len(starts) == 1

    text = report_of(count)
    command = text.splitlines()[text.splitlines().index("run exactly this story:") + 1]
    assert re.fullmatch(r"  run 0 \d+ none", command)
    assert "1 of " in text.splitlines()[0]
    assert "crash worker" in text


def test_shrinking_keeps_the_cause_of_a_failure_of_the_cluster() -> None:
    @simulated(seeds=1, peers=1, brokers=1, faults="kill_program,pause_program")
    async def watch(world: SimulatedWorld) -> None:
        starts: list[int] = []

        async def worker(_: str) -> None:
            starts.append(1)
            await asyncio.sleep(3_600)

        async def counter(_: str) -> None:
            while True:
                await asyncio.sleep(1)
                assert {1: "once"}[len(starts)]

        world.start("worker", worker, restarts=True)
        world.start("counter", counter)
        # Without any fault, this wait fails too, at the same line and with the same type of exception.
        await world.until(lambda: len(starts) > 100, within=20)

    text = report_of(watch)
    assert "1 of " in text.splitlines()[0]
    assert "crash worker" in text
    command = text.splitlines()[text.splitlines().index("run exactly this story:") + 1]
    assert re.fullmatch(r"  run 0 \d+ none", command)


RACE_S = 5
RACE_AT_S = RACE_S + 2
"""Virtual second at which a program of a race sends its message, after it has sent pings for RACE_S."""
LATER_S = 50e-6
"""How much later the second program sends its message."""


async def start_race(world: SimulatedWorld, order: list[str]) -> asyncio.Server:
    """Start two programs that send pings, and after some seconds a message, to the test function.

    Without jitter, the message of the second program arrives second.
    """

    async def send(name: str, at_s: float) -> None:
        reader, writer = await asyncio.open_connection(TEST, 80)
        for _ in range(10 * RACE_S):
            writer.write(b"ping\n")
            await reader.readline()
            await asyncio.sleep(0.1)
        await asyncio.sleep(at_s - world.now)
        writer.write(name.encode() + b"\n")
        await reader.readline()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line != b"ping\n":
                order.append(line.decode().strip())
            writer.write(b"pong\n")
        writer.close()

    server = await asyncio.start_server(answer, port=80)
    world.start("one", lambda _: send("one", RACE_AT_S))
    world.start("two", lambda _: send("two", RACE_AT_S + LATER_S))
    return server


async def race(world: SimulatedWorld) -> None:
    order: list[str] = []
    server = await start_race(world, order)
    await asyncio.sleep(2 * RACE_S)
    server.close()
    world.note("arrived", order=order)
    assert order == ["one", "two"]


def failing_seed(**options: Any) -> int:
    return next(seed for seed in range(20) if run_seed(parameters(**options), race, seed).failure is not None)


def test_shrinking_limits_jitter_to_the_race_of_the_failure(tmp_path: Path) -> None:
    seed = failing_seed()

    @simulated(seeds=1, **ALONE)
    async def run(world: SimulatedWorld) -> None:
        await race(world)

    with selected(Selection(COMMAND, [seed])):
        text = report_of(run)
    command = next(line for line in text.splitlines() if line.startswith(f"  run {seed} ") and "-" in line)
    spans = spans_of(command.split()[-1])
    journal = tmp_path / ".zabka-seeds" / f"the-test-seed-{seed}.jsonl"
    shrunk = journal.read_bytes()
    # The messages are sent 7 s after the start of the world, and arrive within milliseconds.
    assert sum(span.end_us - span.begin_us for span in spans) < 50_000
    assert any(span.end_us > 6_900_000 and span.begin_us < 7_100_000 for span in spans)
    simplified, choices = re.findall(r"the schedule: (\d+) of (\d+) choices were simplified", text)[0]
    assert 0.9 * int(choices) < int(simplified) < int(choices)
    assert re.search(r"shrunk in [\d.]+ s of CPU time .at most 20 s for the faults and 20 s for the schedule", text)
    with selected(Selection(COMMAND, [seed], jitter=spans)):
        again = report_of(run)
    assert "two runs" not in again and command in again
    assert journal.read_bytes() == shrunk


def test_failure_without_a_race_needs_no_jitter() -> None:
    @simulated(seeds=1, **ALONE)
    async def fail(world: SimulatedWorld) -> None:
        await start_race(world, [])
        await asyncio.sleep(3)
        raise AssertionError

    text = report_of(fail)
    simplified, choices = re.findall(r"the schedule: (\d+) of (\d+) choices were simplified", text)[0]
    assert simplified == choices != "0"
    assert "run exactly this story:\n  run 0 none" in text


def test_jitter_at_all_times_gives_the_history_of_the_seed() -> None:
    plain = run_seed(parameters(), race, 1)
    everywhere = run_seed(parameters(), race, 1, jitter=[Span(0, 1_000_000_000)])
    nowhere = run_seed(parameters(), race, 1, jitter=[])
    assert everywhere.digest == plain.digest != nowhere.digest
    assert everywhere.choices > 100 and everywhere.simplified == 0
    assert nowhere.choices == nowhere.simplified > 100


def test_shrinking_shows_its_progress_and_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_s = 0.0

    async def slow_race(world: SimulatedWorld) -> None:
        nonlocal cpu_s
        cpu_s += 1.5
        await race(world)

    monkeypatch.setattr(shrinking, "PROGRESS_S", 0.0)
    monkeypatch.setattr(shrinking, "JITTER_S_MAX", 4.0)
    monkeypatch.setattr(shrinking, "process_time", lambda: cpu_s)
    lines: list[str] = []
    seed = failing_seed()
    found = run_seed(parameters(), race, seed)
    shrunk = shrinking.Shrinking(parameters(), slow_race, seed, found, lines.append).shrink()
    # The third attempt ends after the limit, so it is the last one.
    assert shrunk.runs == 3
    assert len(lines) == 3
    assert re.fullmatch(rf"zabka: shrinks the failure of seed {seed}: 3 runs, jitter in [\d.]+ of [\d.]+ s", lines[-1])


def test_seed_whose_runs_differ_is_reported_as_nondeterministic() -> None:
    runs: list[int] = []

    @simulated(seeds=1, **ALONE)
    async def remember(world: SimulatedWorld) -> None:
        runs.append(1)
        await asyncio.sleep(1)
        world.note("run", number=len(runs))
        raise AssertionError

    text = report_of(remember)
    assert "two runs of that seed differ" in text
    assert "test-function: run: number=1" in text and "test-function: run: number=2" in text
    assert "likely source:" in text


LOOKED_AT = """
import gc
from zabka.testing import simulated

KEPT = [[number] for number in range(100_000)]

@simulated(seeds=1, peers=1, brokers=0)
async def look(world):
    print(len(gc.get_objects()))

look()
print(gc.get_freeze_count())
"""
"""Program that prints how many objects the garbage collector examines during a seed, and how many it skips after it."""


def test_garbage_collector_skips_the_objects_of_the_test_suite() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOKED_AT], capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    during, after = map(int, done.stdout.split())
    assert 0 < during < 100_000 and after == 0


def test_replay_injects_only_the_selected_faults() -> None:
    async def wait(world: SimulatedWorld) -> None:
        async def idle(_: str) -> None:
            await asyncio.sleep(3_600)

        world.start("idle", idle, restarts=True)
        await asyncio.sleep(30)

    chaos = parameters(faults="programs")
    every = run_seed(chaos, wait, 1).injected
    assert len(every) > 3
    assert run_seed(chaos, wait, 1, every[1:2]).injected == every[1:2]
    assert run_seed(chaos, wait, 1, []).injected == []


def test_simulated_faults_end_before_the_end_of_the_test() -> None:
    async def wait(world: SimulatedWorld) -> None:
        async def idle(_: str) -> None:
            await asyncio.sleep(3_600)

        service = world.start("idle", idle, restarts=True)
        await asyncio.sleep(25)
        assert service.process == "running"

    run = run_seed(parameters(faults="kills,pauses", faults_s=20), wait, 2)
    assert run.failure is None
    injected_us = [each.mono_us - run.began_us for each in run.entries if isinstance(each.event, FaultInjected)]
    assert injected_us and max(injected_us) < 20_100_000


def test_failure_of_a_program_is_raised_in_the_waiting_test() -> None:
    @simulated(seeds=1, **ALONE)
    async def fail(world: SimulatedWorld) -> None:
        async def broken(_: str) -> None:
            raise LookupError("no such order")

        world.start("broken", broken)
        with pytest.raises(ClusterFailed, match="no such order"):
            await world.until(lambda: False)

    fail()


def test_unmet_condition_is_reported_with_its_source() -> None:
    @simulated(seeds=1, **ALONE)
    async def wait(world: SimulatedWorld) -> None:
        await world.until(lambda: world.now < 0, within=5)

    with pytest.raises(ClusterFailed, match=r"`world.now < 0` did not come true within 5 s"):
        wait()


def test_simulated_test_that_never_ends_fails_at_its_time_limit() -> None:
    @simulated(seeds=1, limit_s=10, **ALONE)
    async def hang(_: SimulatedWorld) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(ClusterFailed, match="did not end within 10 s"):
        hang()


def test_test_function_can_change_the_cluster_while_programs_run() -> None:
    ticks: list[float] = []

    @simulated(seeds=1, peers=1, brokers=1)
    async def change(world: SimulatedWorld) -> None:
        async def tick(_: str) -> None:
            while True:
                ticks.append(world.now)
                await asyncio.sleep(0.01)

        world.start("tick", tick)
        await asyncio.sleep(0.1)
        before = len(ticks)
        world.topics.create("orders")
        world.cluster.produce("orders", ["a", "b"])
        # Other programs of the world must have run while the test's own calls waited.
        assert len(ticks) > before
        await asyncio.sleep(0.1)
        assert world.cluster.consume("orders") == ["a", "b"]

    change()


def test_notes_and_log_lines_contain_the_name_of_their_program() -> None:
    async def talk(world: SimulatedWorld) -> None:
        async def speaker(_: str) -> None:
            LOG.warning("object %s", "0x7f0011223344")
            world.note("spoke")

        world.start("speaker", speaker)
        await asyncio.sleep(1)
        world.note("heard")

    entries = run_seed(parameters(), talk, 0).entries
    noted = {entry.event.kind: entry.node for entry in entries if isinstance(entry.event, ProgramNoted)}
    assert noted == {"spoke": "speaker", "heard": "test-function"}
    logged = [entry for entry in entries if isinstance(entry.event, ProgramLogged)]
    assert [(entry.node, entry.event) for entry in logged] == [
        ("speaker", ProgramLogged("WARNING", "till", "object 0x…"))
    ]


@pytest.mark.parametrize("kind", sorted(BROKER_FAULTS))
def test_broker_fault_in_a_world_without_brokers_is_rejected(kind: str) -> None:
    with pytest.raises(UnknownFaults, match=rf"the faults {kind} need a broker: set brokers=1 or more"):
        simulated(faults=kind, brokers=0)(run_seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("mix", MIXES)
def test_each_fault_mix_injects_faults_in_a_brokerless_world(mix: str) -> None:
    async def wait(world: SimulatedWorld) -> None:
        async def idle(_: str) -> None:
            await asyncio.sleep(3_600)

        world.start("idle", idle, restarts=True)
        await asyncio.sleep(25)

    run = run_seed(parameters(faults=mix), wait, 1)
    assert run.failure is None
    assert run.injected


def test_error_for_an_unknown_fault_kind_lists_the_known_kinds() -> None:
    assert kinds_of("clocks", 3) == kinds_of(["step_clock"], 3) == ("step_clock",)
    assert set(MIXES["pauses"]) < set(kinds_of("pauses, kill_program", 3))
    with pytest.raises(UnknownFaults, match=r"there are no faults 'meteor': name a mix .chaos"):
        kinds_of("meteor", 3)


def test_fault_numbers_round_trip_through_a_string() -> None:
    assert [numbers_of(numbers_text(each)) for each in ([], [3], [3, 7])] == [[], [3], [3, 7]]


def test_jitter_spans_round_trip_through_a_string() -> None:
    spans = [Span(1, 3_120_000), Span(5_000_000, 6_500_000)]
    assert text_of(spans) == "0.000001-3.12,5-6.5"
    assert [spans_of(text_of(each)) for each in ([], spans)] == [[], spans]


def test_span_can_be_left_out_of_longer_and_several_spans() -> None:
    assert without([Span(0, 10)], Span(4, 6)) == [Span(0, 4), Span(6, 10)]
    assert without([Span(0, 4), Span(6, 10)], Span(2, 8)) == [Span(0, 2), Span(8, 10)]
    assert without([Span(0, 4)], Span(0, 4)) == []
    assert without([Span(0, 4)], Span(4, 8)) == [Span(0, 4)]


def test_pytest_can_run_a_single_seed_and_use_fixtures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(IMPATIENT)
    (tmp_path / "test_shop.py").write_text(PROJECT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}

    def outcome(*more: str) -> str:
        done = subprocess.run(
            [*command, *more], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300
        )
        return done.stdout

    text = outcome("-n2")
    assert "1 failed, 1 passed" in text
    assert "seed 1 has hash seed 0" in text
    assert "pytest test_shop.py::test_shop --zabka-seed 1" in text
    assert "1 passed" in outcome("--zabka-seed", "0")
    text = outcome("--zabka-seed", "1", "--zabka-jitter", "0.5-0.6", "--zabka-faults", "none")
    assert "the others, in these virtual seconds, were not: 0.5-0.6" in text
    assert "pytest test_shop.py::test_shop --zabka-seed 1 --zabka-faults none --zabka-jitter 0.5-0.6" in text


def test_progress_of_shrinking_is_shown_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(IMPATIENT)
    (tmp_path / "test_slow.py").write_text(SLOW)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], capture_output=True, text=True,
        check=False, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": "7"}, timeout=300,
    )  # fmt: skip
    assert re.search(r"^zabka: shrinks the failure of seed 0: \d+ runs, jitter in ", done.stdout, re.MULTILINE)
    assert "1 failed" in done.stdout


IMPATIENT = """
from zabka.testing.worlds import shrinking

shrinking.PROGRESS_S, shrinking.JITTER_S_MAX = 0.0, 3.0
"""
SLOW = """
import asyncio
from zabka.testing import simulated

@simulated(seeds=1, peers=1, brokers=0)
async def test_slow(world):
    sum(range(20_000_000))
    began = world.now
    await asyncio.sleep(0)
    assert world.now - began < 11e-6, "the loop has jitter"
"""
PROJECT = """
import asyncio, sys
from zabka.testing import simulated

@simulated(seeds=2, peers=1, brokers=0)
async def test_shop(world, tmp_path):
    await asyncio.sleep(1)
    assert world.seed != 1, f"seed {world.seed} has hash seed {sys.flags.hash_randomization}"
"""


def test_skip_and_xfail_marks_apply_in_a_child_process(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(IMPATIENT)
    (tmp_path / "test_marks.py").write_text(MARKED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rsxX", "-p", "no:cacheprovider"], capture_output=True, text=True,
        check=False, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": "7"}, timeout=300,
    )  # fmt: skip
    assert "1 failed, 1 skipped, 2 xfailed, 1 xpassed" in done.stdout
    assert ": no brokers\n" in done.stdout
    assert "[XPASS(strict)]" in done.stdout


MARKED = """
import pytest
from zabka.testing import simulated

@simulated(seeds=1, peers=1, brokers=0)
async def test_skipped(world):
    pytest.skip("no brokers")

@pytest.mark.xfail
@simulated(seeds=1, peers=1, brokers=0)
async def test_fails_as_expected(world):
    assert False

@simulated(seeds=1, peers=1, brokers=0)
async def test_calls_xfail(world):
    pytest.xfail("not yet")

@pytest.mark.xfail
@simulated(seeds=1, peers=1, brokers=0)
async def test_passes_unexpectedly(world):
    pass

@pytest.mark.xfail(strict=True)
@simulated(seeds=1, peers=1, brokers=0)
async def test_passes_although_strict(world):
    pass
"""


def test_script_starts_itself_again_with_a_fixed_hash_seed(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(PROJECT.replace(", tmp_path", "") + "\ntest_shop()\n")

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, "PYTHONHASHSEED": "random", **environment}
        return subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, env=given, cwd=tmp_path, timeout=120,
            check=False,
        )  # fmt: skip

    assert "AssertionError: seed 1 has hash seed 0" in run().stderr
    assert run(ZABKA_SEED="0").returncode == 0
