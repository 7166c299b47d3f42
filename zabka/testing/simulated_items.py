"""Runs tests decorated with `simulated` in pytest: selects the seeds of each item, and the process that runs it.

Seeds need a process with PYTHONHASHSEED=0 (`zabka.testing.worlds.decorator`). If pytest's process has another value,
each item runs in a child process: pytest with the same node id. The first process shows the child's report as the
report of the item.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from zabka.testing.worlds.shrinking import Selected

CHUNKS_PER_WORKER = 2
POLL_S = 0.5
"""Time in seconds between two looks at the progress of a child process."""
_SELECTING = ("--zabka-seed", "--zabka-faults", "--zabka-jitter")
"""Options that select the seed, the faults and the jitter of a simulated test."""
_SEEDS = "zabka_seeds"
_ATTRIBUTE = "zabka_simulated"
_STRICT_XPASS = "[XPASS(strict)]"
"""Text with which pytest's report begins if a test passes although it is marked `xfail(strict=True)`."""


def _parameters(function: object) -> Any:
    """Return the parameters of a test decorated with `simulated`, or None for another test.

    The test can also be wrapped by hypothesis's `given`.
    """
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", None)
    return getattr(inner or function, _ATTRIBUTE, None)


def divide_seeds(metafunc: pytest.Metafunc) -> None:
    """Parametrize a simulated test with ranges of its seeds, a few for each worker of pytest-xdist."""
    # Do not read environment variables here: child processes inherit a worker's environment, and can run a pytest
    # without workers.
    workers = getattr(metafunc.config, "workerinput", {}).get("workercount", 1)
    parameters = _parameters(metafunc.function)
    if parameters is None or workers < 2 or metafunc.config.getoption("--zabka-seed") is not None:
        return
    chunks = min(CHUNKS_PER_WORKER * workers, parameters.seeds)
    ends = [parameters.seeds * number // chunks for number in range(chunks + 1)]
    ranges = [range(begin, end) for begin, end in pairwise(ends)]
    metafunc.fixturenames.append(_SEEDS)
    metafunc.parametrize(_SEEDS, ranges, ids=[f"seeds {each.start} to {each.stop - 1}" for each in ranges])


@contextmanager
def selected_seeds(item: pytest.Function) -> Iterator[None]:
    """Select the seeds with which an item runs, for a `with` block.

    If Python's hash seed is not fixed, a child process runs the item, and the item raises the outcome of the child.
    """
    parameters = _parameters(item.obj)
    if parameters is None:
        yield
        return
    from zabka.simulation.jitter import spans_of
    from zabka.testing.worlds.decorator import Selection, hash_seed_is_fixed, numbers_of, selected
    from zabka.testing.worlds.finding import Command

    if not hash_seed_is_fixed():
        _run_in_child(item)
        function, item.obj = item.obj, _run_by_child
        try:
            yield
        finally:
            item.obj = function
        return
    config = item.config
    seed, faults, jitter = map(config.getoption, _SELECTING)
    selection = Selection(
        Command(item.name, lambda seed, chosen: _command(item, seed, chosen)),
        _range_of(item) if seed is None else [seed],
        None if faults is None else numbers_of(faults),
        None if jitter is None else spans_of(jitter),
        lambda line: _show_progress(config, line),
    )
    with selected(selection):
        yield


def _run_by_child(**_: object) -> None:
    """Do nothing. This function replaces a test function that the child process has already run."""


def _range_of(item: pytest.Function) -> range | None:
    """Return the range of seeds that an item runs, or None for all seeds.

    The parent process or the parametrization for pytest-xdist defines the range.
    """
    given = item.config.getoption("--zabka-seeds")
    if given is not None:
        begin, _, end = given.partition(":")
        return range(int(begin), int(end))
    callspec = getattr(item, "callspec", None)
    found: range | None = None if callspec is None else callspec.params.get(_SEEDS)
    return found


def _node_id(item: pytest.Function) -> str:
    """Return the node id of an item without the parameter for the range of its seeds."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or _SEEDS not in callspec.params:
        return item.nodeid
    rest = [part for part in callspec.id.split("-") if not part.startswith("seeds ")]
    return item.nodeid.removesuffix(f"[{callspec.id}]") + (f"[{'-'.join(rest)}]" if rest else "")


def _command(item: pytest.Function, seed: int, chosen: Selected) -> str:
    from zabka.testing.worlds.decorator import texts_of

    given = {"seed": str(seed), **texts_of(chosen)}
    return shlex.join(
        ["pytest", _node_id(item), *(part for name in given for part in (f"--zabka-{name}", given[name]))]
    )


def _show_progress(config: pytest.Config, line: str) -> None:
    """Show a line of progress on the terminal.  A child process writes it to a file, which its parent process shows."""
    report = config.getoption("--zabka-report")
    if report is not None:
        _progress_file(Path(report)).write_text(line)
        return
    terminal = config.pluginmanager.getplugin("terminalreporter")
    capturing = config.pluginmanager.getplugin("capturemanager")
    if terminal is None or capturing is None:
        # A worker of pytest-xdist has no terminal.
        return
    with capturing.global_and_fixture_disabled():
        terminal.ensure_newline()
        terminal.write_line(line)


def _progress_file(report: Path) -> Path:
    return report.with_suffix(".progress")


def _run_in_child(item: pytest.Function) -> None:
    """Run an item in a child process with PYTHONHASHSEED=0. If the item does not pass, raise its outcome."""
    __tracebackhide__ = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        code, output = _wait_for_child(item, path)
        if not path.exists():
            pytest.fail(f"the child process of this test ended with {code}\n{output}", pytrace=False)
        report = json.loads(path.read_text())
    if report["outcome"] == "xfailed":
        pytest.xfail(report["text"])
    if report["outcome"] == "skipped":
        pytest.skip(report["text"])
    if report["outcome"] != "passed":
        pytest.fail(report["text"], pytrace=False)
    sys.stdout.write(report["stdout"])


def _wait_for_child(item: pytest.Function, report: Path) -> tuple[int, str]:
    """Run the child process of an item, and show its progress.  Return its exit code and its output."""
    progress, shown = _progress_file(report), ""
    with subprocess.Popen(
        _child(item, report),
        env={**os.environ, "PYTHONHASHSEED": "0"},
        cwd=item.config.invocation_params.dir,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as child:
        try:
            while True:
                try:
                    output, _ = child.communicate(timeout=POLL_S)
                    return child.returncode, output
                except subprocess.TimeoutExpired:
                    line = progress.read_text() if progress.exists() else ""
                    if line and line != shown:
                        shown = line
                        _show_progress(item.config, line)
        except BaseException:
            child.kill()
            raise


def _child(item: pytest.Function, report: Path) -> list[str]:
    """Return the command of the child process: pytest with the same item, configuration and zabka options."""
    config = item.config
    command = [sys.executable, "-m", "pytest", f"{item.path}::{_node_id(item).partition('::')[2]}", "-q"]
    command += ["--rootdir", str(config.rootpath), "--zabka-report", str(report)]
    if config.getoption("runxfail"):
        command += ["--runxfail"]
    if config.inipath is not None:
        command += ["-c", str(config.inipath)]
    if config.pluginmanager.hasplugin("xdist"):
        command += ["-n0"]
    for setting in config.getoption("override_ini") or ():
        command += ["-o", setting]
    seed = config.getoption("--zabka-seed")
    seeds = _range_of(item)
    if seed is None and seeds is not None:
        command += ["--zabka-seeds", f"{seeds.start}:{seeds.stop}"]
    for option in _SELECTING:
        value = config.getoption(option)
        command += [] if value is None else [option, str(value)]
    return command


def write_report(path: str, report: pytest.TestReport) -> None:
    """Write the outcome of the only item to a file, for the parent process.

    An item that passes although it is marked `xfail(strict=True)` is written as passed, because the parent process
    applies the same mark to the outcome.
    """
    outcome: str = report.outcome
    if report.skipped and hasattr(report, "wasxfail"):
        outcome, text = "xfailed", report.wasxfail.removeprefix("reason: ")
    elif report.skipped and isinstance(report.longrepr, tuple):
        text = report.longrepr[2].removeprefix("Skipped: ")
    else:
        text = report.longreprtext
        if text.startswith(_STRICT_XPASS):
            outcome, text = "passed", ""
    Path(path).write_text(json.dumps({"outcome": outcome, "text": text, "stdout": report.capstdout}))
