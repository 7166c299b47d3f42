"""The child process of the API: a job that goes on after SIGTERM ends soon all the same."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAIT_S = 60.0
STUBBORN_JOB = """
import sys, time
from zabka.cli import main, scenario_player
from zabka.compose import launch

def go_on():
    line = "ready"
    while True:
        try:
            print(line, flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            line = "interrupted"

launch.END_S = 1
main.main = go_on
sys.argv = ["player", *sys.argv[1:]]
scenario_player.main()
"""
STUBBORN_STREAM = """
import signal, time
from zabka.cli import pipeline
from zabka.compose import launch

launch.END_S = 1
with pipeline._asked_to_end() as asked:
    signal.raise_signal(signal.SIGINT)
    assert asked.is_set() and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    asked.clear()
    print("ready", flush=True)
    asked.wait()
    print("interrupted", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("code", "arguments"),
    [(STUBBORN_JOB, ["pipeline", "audit"]), (STUBBORN_JOB, ["campaign", "run"]), (STUBBORN_STREAM, [])],
)
def test_job_that_ignores_sigterm_ends_all_the_same(code: str, arguments: list[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout is not None
            assert job.stdout.readline() == "ready\n"
            job.terminate()
            assert job.stdout.readline() == "interrupted\n"
            assert job.wait(WAIT_S) == -signal.SIGALRM
        finally:
            job.kill()


def test_repair_of_the_cluster_is_not_limited() -> None:
    code = STUBBORN_JOB.replace("import sys", "import signal, sys")
    code = code.replace('"interrupted"', "signal.getitimer(signal.ITIMER_REAL)[0]")
    arguments = ["scenarios", "run", "--on", "http://127.0.0.1:1"]
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True) as player:
        try:
            assert player.stdout is not None
            assert player.stdout.readline() == "ready\n"
            player.terminate()
            assert player.stdout.readline() == "0.0\n"
        finally:
            player.kill()
