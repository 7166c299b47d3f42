"""The decorator `simulated`: seeds, faults, notes that a test writes, and the report of a seed that fails."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zabka.journal.events import FaultInjected, ProgramLogged, ProgramNoted
from zabka.simulation.faults.program_faults import BROKER_FAULTS, MIXES, UnknownFaults, kinds_of
from zabka.testing import ClusterFailed, SimulatedWorld, simulated
from zabka.testing.worlds.decorator import Selection, numbers_of, numbers_text, selected
from zabka.testing.worlds.finding import Command
from zabka.testing.worlds.seed_test import Parameters, run_seed

ALONE: dict[str, Any] = {"peers": 1, "brokers": 0}
COMMAND = Command("the-test", lambda seed, faults: f"run {seed} {faults}")
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
    assert "the-test fails with seed 3 and no faults; run 2 times" in text
    assert "till: started as program" in text
    assert "till: logs INFO till: sold at" in text
    assert "till: billed: order=7" in text
    assert "test-function: AssertionError: no change" in text
    assert "  run 3 None" in text
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
    needed = next(line for line in text.splitlines() if line.startswith("  run 0 [")).split("[")[1].rstrip("]")
    assert len(needed.split(",")) == 1
    assert "1 of " in text.splitlines()[0]
    assert "crash worker" in text


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


def test_pytest_can_run_a_single_seed_and_use_fixtures(tmp_path: Path) -> None:
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


PROJECT = """
import asyncio, sys
from zabka.testing import simulated

@simulated(seeds=2, peers=1, brokers=0)
async def test_shop(world, tmp_path):
    await asyncio.sleep(1)
    assert world.seed != 1, f"seed {world.seed} has hash seed {sys.flags.hash_randomization}"
"""


def test_skip_and_xfail_marks_apply_in_a_child_process(tmp_path: Path) -> None:
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
