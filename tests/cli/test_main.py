"""The `zabka` command imports only the module of the subcommand that it runs."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from zabka.cli.typer_verbs import load
from zabka.cli.verbs import VERBS, WITHOUT_TYPER

LISTS_ITS_VERBS = """
import sys
from zabka.cli.main import main
sys.argv = ["zabka", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
print(sorted(name for name in sys.modules if name.startswith("zabka")))
"""

LOADS_ALL = """
import sys
from zabka.cli.verbs import VERBS, WITHOUT_TYPER, main_of
from zabka.cli.typer_verbs import load
for verb in VERBS:
    main_of(verb) if verb in WITHOUT_TYPER else load(verb)
print(sorted({"fastapi", "uvicorn", "httpx", "pyspark", "zabka.simulation.cluster.world"} & set(sys.modules)))
"""


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in WITHOUT_TYPER])
def test_every_subcommand_has_a_module_with_its_command(verb: str) -> None:
    command = load(verb)
    assert command.name == verb or verb == "scenarios"
    assert command.help == VERBS[verb]


def test_help_lists_subcommands_without_importing_their_modules() -> None:
    output = subprocess.run([sys.executable, "-c", LISTS_ITS_VERBS], capture_output=True, text=True, check=True).stdout
    assert all(f"  {verb} " in output for verb in VERBS)
    assert output.splitlines()[-1] == (
        "['zabka', 'zabka.cli', 'zabka.cli.broken_pipe', 'zabka.cli.command_group', 'zabka.cli.main', "
        "'zabka.cli.typer_verbs', 'zabka.cli.verbs', 'zabka.ensemble', 'zabka.ensemble.close_names', "
        "'zabka.ensemble.runtime', 'zabka.ensemble.runtime.extras']"
    )


def test_subcommand_options_load_without_its_implementation() -> None:
    output = subprocess.run([sys.executable, "-c", LOADS_ALL], capture_output=True, text=True, check=True).stdout
    assert output == "[]\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("arguments", [["--help"], ["simulate", "--seeds", "0", "--scenario", "ensemble"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_unwritable_output_is_reported_in_one_line(arguments: list[str], unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "zabka.cli.main", *arguments], stdout=full, stderr=subprocess.PIPE, env=environment,
            text=True, check=False,
        )  # fmt: skip
    # 1 would mean that an invariant was violated.
    assert (done.returncode, done.stderr) == (2, "zabka: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "--seed", "1", "--scenario", "ensemble", "--out"],
        ["scenarios", "run", "--out"],
        ["scenarios", "run", "--messages"],
        ["explore", "--peers", "1", "--out"],
    ],
)
def test_directory_as_output_file_is_rejected_before_the_run(arguments: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "zabka.cli.main", *arguments, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"[Errno 21] Is a directory: '{tmp_path}'\n")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "--seeds", "0", "--scenario", "ensemble"],
        ["replay", "--seed", "0", "--scenario", "ensemble"],
        ["scenarios", "list"],
        ["simulate", "--help"],
        ["pipeline", "vacuum", "--older-than-s", "60", "--out"],
    ],
)
def test_closed_output_pipe_is_not_reported_as_a_violation(arguments: list[str], tmp_path: Path) -> None:
    arguments = [*arguments, str(tmp_path)] if arguments[-1] == "--out" else arguments
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "zabka.cli.main", *arguments], stdout=writer, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    # 1 would mean that an invariant was violated.
    assert done.returncode == 2
    assert "Errno" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_not_change_the_result(closed: str, tmp_path: Path) -> None:
    out = tmp_path / "journal.jsonl"
    played = [
        sys.executable,
        "-m",
        "zabka.cli.main",
        "replay",
        "--seed",
        "1",
        "--scenario",
        "ensemble",
        "--out",
        str(out),
    ]
    done = subprocess.run(["sh", "-c", f"{shlex.join(played)} {closed}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert all(line.startswith("{") for line in out.read_text().splitlines())


def test_closed_standard_input_is_read_as_empty() -> None:
    program = (
        "from zabka.cli.main import _open_closed_streams as f; import sys; f(); print(sys.stdin.buffer.raw.read(9))"
    )
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join([sys.executable, '-c', program])} <&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "b''\n")
