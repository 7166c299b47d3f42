"""Test suites of Go modules. They are built from the modules' source, and run with our brokers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.interop_brokers import tool

FETCH_S = 180.0
BUILD_S = 600.0
"""Maximum time in seconds to build a client and its dependencies on a busy machine."""
ENDS_WITHIN_S = 10.0
LOOKS_EVERY_S = 0.05


class Module(NamedTuple):
    """A Go module and its version."""

    path: str
    version: str


class Ended(NamedTuple):
    """Result of a run of a test suite: its exit code and output."""

    code: int
    output: str

    def outcomes(self, outcome: str) -> set[str]:
        """Return the tests, without subtests, that ended with this outcome: PASS, FAIL or SKIP."""
        return set(re.findall(rf"(?m)^--- {outcome}: (\w+) ", self.output))

    def complaint(self) -> str:
        """Return the failed tests and the end of the output."""
        return f"{sorted(self.outcomes('FAIL'))}\n{self.output[-4000:]}"


class GoSuite:
    """The compiled tests of a Go package."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def missing(self, names: Collection[str]) -> set[str]:
        """Return the tests in `names` that the sources do not contain. A name is `Test` or `Test/part_of_it`."""
        # Search the sources, because a test program may need its servers even to list its tests.
        text = "".join(file.read_text() for file in sorted(self._program.parent.glob("*_test.go")))
        tests = set(re.findall(r"(?m)^func (Test\w+)\(t \*testing\.T\)", text))

        def is_there(name: str) -> bool:
            test, _, part = name.partition("/")
            return test in tests and (not part or f'"{part.replace("_", " ")}"' in text)

        return {name for name in names if not is_there(name)}

    def run(
        self,
        left_out: Collection[str],
        settings: Mapping[str, str],
        limit_s: float,
        meanwhile: Callable[[], None] = lambda: None,
        **options: str,
    ) -> Ended:
        """Run all tests except `left_out`, with these environment variables and `go test` options. Kill the run at the
        time limit.

        `meanwhile` is called repeatedly during the run.
        """
        output = self._program.with_suffix(".output")
        command = [
            str(self._program), "-test.v", f"-test.timeout={limit_s:.0f}s",
            "-test.skip=" + "|".join("/".join(f"^{part}$" for part in name.split("/")) for name in sorted(left_out)),
            *(f"-test.{name}={value}" for name, value in options.items()),
        ]  # fmt: skip
        with output.open("w") as out:
            running = subprocess.Popen(
                command, cwd=self._program.parent, env={**os.environ, **settings}, start_new_session=True,
                stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        deadline = time.monotonic() + limit_s + ENDS_WITHIN_S
        try:
            while running.poll() is None and time.monotonic() < deadline:
                meanwhile()
                time.sleep(LOOKS_EVERY_S)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        return Ended(running.returncode, output.read_text(errors="replace"))


def source(module: Module, home: Path) -> Path:
    """Return a writable copy of the module's source.

    Skips the test with a reason if the source or Go is missing. `home` must be outside any Go module, so that only the
    requested version is used.
    """
    go = tool("go")
    name = f"{module.path}@{module.version}"
    fetched = subprocess.run(
        [go, "mod", "download", "-json", name],
        cwd=home, capture_output=True, text=True, timeout=FETCH_S, check=False,
    )  # fmt: skip
    if fetched.returncode:
        pytest.skip(f"{name} cannot be fetched: {(fetched.stdout + fetched.stderr).strip()[-300:]}")
    copy = home / "source"
    shutil.copytree(json.loads(fetched.stdout)["Dir"], copy, copy_function=shutil.copyfile)
    for folder in [copy, *(each for each in copy.rglob("*") if each.is_dir())]:
        folder.chmod(0o755)
    return copy


def built(package: Path, *tags: str) -> GoSuite:
    """Build the tests of a package, selected by `tags`, in a copy made by `source`."""
    program = package / "suite.test"
    # The go.mod of an older module may lack what the installed Go requires.
    command = [tool("go"), "test", "-mod=mod", "-c", "-tags", ",".join(tags), "-o", str(program), "."]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return GoSuite(program)


def program_of(module: Module, package: str, home: Path) -> Path:
    """Build a command of a Go module in `home`, and return its path. Skips if the module is not available."""
    go = tool("go")
    name = f"{module.path}/{package}@{module.version}"
    done = subprocess.run(
        [go, "install", name],
        cwd=home, env={**os.environ, "GOBIN": str(home)}, capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"{name} cannot be built: {done.stderr.strip()[-300:]}")
    return home / Path(package).name
