"""Tests that Go modules carry, built out of the module's own source and run against brokers of ours."""

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
"""Of a client with its dependencies, while others use the machine."""
ENDS_WITHIN_S = 10.0
LOOKS_EVERY_S = 0.05


class Module(NamedTuple):
    """A Go module at a version."""

    path: str
    version: str


class Ended(NamedTuple):
    """How a run of a suite ended."""

    code: int
    said: str

    def outcomes(self, outcome: str) -> set[str]:
        """The tests, without their parts, that ended so: PASS, FAIL or SKIP."""
        return set(re.findall(rf"(?m)^--- {outcome}: (\w+) ", self.said))

    def complaint(self) -> str:
        """What failed, and the end of what was said."""
        return f"{sorted(self.outcomes('FAIL'))}\n{self.said[-4000:]}"


class GoSuite:
    """The tests of one package, built."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def missing(self, names: Collection[str]) -> set[str]:
        """Those of the names (`Test`, or `Test/part_of_it`) that the sources have not."""
        # The program itself cannot be asked: a suite may want its servers before it lists its tests.
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
        """Run all but those, with these variables of the environment and options of `go test`; kill it at the limit.

        `meanwhile` is called again and again for as long as it runs.
        """
        said = self._program.with_suffix(".said")
        command = [
            str(self._program), "-test.v", f"-test.timeout={limit_s:.0f}s",
            "-test.skip=" + "|".join("/".join(f"^{part}$" for part in name.split("/")) for name in sorted(left_out)),
            *(f"-test.{name}={value}" for name, value in options.items()),
        ]  # fmt: skip
        with said.open("w") as out:
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
        return Ended(running.returncode, said.read_text(errors="replace"))


def source(module: Module, home: Path) -> Path:
    """A copy of the module's source that may be written to.  Skips, saying why, where either cannot be had.

    `home` must lie outside of any module, so that nothing but the version counts.
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
    """The tests of a package in such a copy, which `tags` may choose."""
    program = package / "suite.test"
    # A module's own go.mod may be older than what the Go that is installed wants written in it.
    command = [tool("go"), "test", "-mod=mod", "-c", "-tags", ",".join(tags), "-o", str(program), "."]
    done = subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return GoSuite(program)


def program_of(module: Module, package: str, home: Path) -> Path:
    """A command that a module holds, built into `home`.  Skips where it cannot be had."""
    go = tool("go")
    name = f"{module.path}/{package}@{module.version}"
    done = subprocess.run(
        [go, "install", name],
        cwd=home, env={**os.environ, "GOBIN": str(home)}, capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"{name} cannot be built: {done.stderr.strip()[-300:]}")
    return home / Path(package).name
