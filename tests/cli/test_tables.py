"""Tables of the command line print every name in full, whatever the width of the terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from zabka.cli.piped_console import print_table
from zabka.simulation.scenarios.library import LIBRARY

LIST = [sys.executable, "-m", "zabka.cli.main", "scenarios", "list"]


def test_piped_scenario_names_are_complete_and_one_per_line() -> None:
    done = subprocess.run(LIST, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "80"})
    rows = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert rows == list(LIBRARY)
    for line, scenario in zip(done.stdout.splitlines()[1:], LIBRARY.values(), strict=True):
        assert scenario.title in line and scenario.hypothesis in line


def test_scenario_names_are_not_truncated_on_80_columns() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb"}
    process = subprocess.Popen(LIST, stdout=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            read = os.read(ours, 65_536)
        except OSError:
            # The process at the other end of the pseudo-terminal has closed it.
            break
        if not read:
            break
        shown += read
    os.close(ours)
    assert process.wait() == 0
    printed = shown.decode().split()
    assert [name for name in LIBRARY if name not in printed] == []
    assert max(map(len, shown.decode().splitlines())) <= 80


def test_table_with_long_names_is_not_truncated_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a_table_with_a_name_of_more_than_eighty_characters_" * 2
    print_table(("table", "rows"), [(name, "3"), ("short", "12")])
    assert [line.split() for line in capsys.readouterr().out.splitlines()[1:]] == [[name, "3"], ["short", "12"]]
