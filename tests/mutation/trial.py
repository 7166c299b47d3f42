"""Run mutants: a pytest session that has collected all tests forks one child process for each mutant."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from tests.mutation.cases import PYTEST, SEED, TESTS, Cases, Repeatable, run_seed_named
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.patching import RunningFunctions

MEMORY_MAX = 4 << 30
CPU_SPARE_S = 3.0
CPU_FACTOR = 10
"""A case with a mutant counts as endless once it has used this many times its CPU time without the mutant."""
WALL_FACTOR = 40
WALL_SPARE_S = 30
"""Additional wall-clock time in seconds for a case, because a case that waits forever uses no CPU time.

This limit and CPU_FACTOR allow for a busy machine.
"""
SURVIVED, RUNS_ON_IMPORT = "survived", "runs on import"


class Verdict(NamedTuple):
    """Result of one mutant: the case that detected it (or SURVIVED), and the duration in seconds."""

    by: str
    wall_s: float


class Trials(Repeatable):
    """Pytest plugin that runs the mutants one after the other, instead of the tests."""

    def __init__(
        self, mutants: Iterable[Mutant], cases: Cases, seeds: int, report: Callable[[Mutant, Verdict], None]
    ) -> None:
        self._mutants = mutants
        self._cases = cases
        self._seeds = seeds
        self._report = report
        self._failing = False
        self._items: dict[str, pytest.Item] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        import_module("zabka.simulation.run")  # Imported here so that no child process must import it.
        self._items = {item.nodeid: item for item in session.items}
        self._functions = RunningFunctions()
        gc.freeze()  # a collection in a child process would copy every page
        for mutant in self._mutants:
            begin = time.perf_counter()
            by = self._noticed_by(mutant)
            self._report(mutant, Verdict(by, round(time.perf_counter() - begin, 2)))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failing = self._failing or report.failed

    def _noticed_by(self, mutant: Mutant) -> str:
        by = RUNS_ON_IMPORT
        if mutant.function:
            covering = self._cases.covering(mutant, self._seeds)
            if not covering:
                return f"{SURVIVED}: nothing executes it"
            by = _in_child(covering, lambda answer: self._try(mutant, covering, answer))
        if by == RUNS_ON_IMPORT or (by == SURVIVED and self._cases.runs_on_import(mutant)):
            return _in_new_process(mutant, self._cases.using(mutant))
        return by

    def _try(self, mutant: Mutant, covering: dict[str, float], answer: Callable[[str], NoReturn]) -> NoReturn:
        if not self._functions.apply(mutant):
            answer(RUNS_ON_IMPORT)
        tests = [self._items[name] for name in covering if name in self._items]
        for item, following in zip(tests, [*tests[1:], None], strict=True):
            _limit_time(covering[item.nodeid])
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failing:
                answer(item.nodeid)
        _try_seeds(covering, answer)


def _try_seeds(covering: dict[str, float], answer: Callable[[str], NoReturn]) -> NoReturn:
    for name, seconds in covering.items():
        if name.startswith(SEED):
            _limit_time(seconds)
            if run_seed_named(name):
                answer(name)
    answer(SURVIVED)


def _limit_time(seconds: float) -> None:
    """Terminate this process if it runs or waits much longer than `seconds`."""
    signal.setitimer(signal.ITIMER_PROF, CPU_SPARE_S + CPU_FACTOR * seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL_SPARE_S + WALL_FACTOR * seconds)


def _in_child(covering: dict[str, float], run: Callable[[Callable[[str], NoReturn]], NoReturn]) -> str:
    """Run the cases in a forked child, and return its verdict.

    The child's time limit is a multiple of the time that the cases need without the mutant.
    """
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:

        def answer(by: str) -> NoReturn:
            os.write(writing, by.encode())
            os._exit(0)

        try:
            _confine()
            run(answer)
        except BaseException as error:
            answer(repr(error))
        os._exit(1)
    os.close(writing)
    by = _read_answer(reading, child, WALL_SPARE_S + WALL_FACTOR * sum(covering.values()))
    os.close(reading)
    return by


def _confine() -> None:
    os.setsid()
    silent = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(silent, each)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))


def _read_answer(reading: int, child: int, wall_s: float) -> str:
    os.set_blocking(reading, False)
    deadline = time.monotonic() + wall_s
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    try:
        return os.read(reading, 1 << 16).decode() or "time"
    except BlockingIOError:
        return "time"


def _in_new_process(mutant: Mutant, covering: dict[str, float]) -> str:
    """Run a mutant of code that runs on import, in a separate process that imports the changed module."""
    with tempfile.TemporaryDirectory() as folder:
        answer_file = Path(folder) / "answer_file"
        case_file = Path(folder) / "case_file"
        case_file.write_text("\n".join(covering))
        arguments = [mutant.path, str(mutant.number), str(case_file), str(answer_file)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.fresh", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(timeout=WALL_SPARE_S + WALL_FACTOR * sum(covering.values()))
        except subprocess.TimeoutExpired:
            return "time"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return answer_file.read_text() if answer_file.exists() else "import"


def try_all(mutants: Iterable[Mutant], cases: Cases, seeds: int, report: Callable[[Mutant, Verdict], None]) -> None:
    """Run every mutant with the tests and `seeds` seeds. Report each verdict when it is known."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [*PYTEST, f"--basetemp={folder}/tests", *TESTS]
        if (status := pytest.main(arguments, plugins=[Trials(mutants, cases, seeds, report)])) not in (0, 5):
            raise SystemExit(f"the tests were not collected: {status}")
