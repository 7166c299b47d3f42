"""Coverage-guided fuzzing with atheris, one target after the other.

Usage: `python -m tests.fuzz.run --seconds 60 --target all` (or a target's name). `ports` attacks a running ensemble.
Any other target runs in a separate process, starting from its seeds. Inputs that cause an error are saved in
--findings. `--replay FILE --target NAME` runs such an input again. The exit code is 1 if any error was found.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PORTS = "ports"
INPUT_BYTES_MAX = 4096
SLOW_S = 20
MEMORY_MB_MAX = 1500
_EXECUTED = re.compile(r"number_of_executed_units: (\d+)")
_COVERAGE = re.compile(r"cov: (\d+)")


def fuzz(name: str, options: list[str]) -> None:
    """Fuzz a target in this process until atheris ends it. Never returns."""
    import atheris

    with atheris.instrument_imports(include=["zabka.ensemble", "zabka.journal"]):
        from tests.fuzz.targets import TARGETS
    run = TARGETS[name].run
    atheris.Setup([sys.argv[0], *options], run)
    atheris.Fuzz()


def replay(name: str, file: Path) -> None:
    """Run a target with the input saved in that file."""
    from tests.fuzz.targets import TARGETS

    TARGETS[name].run(file.read_bytes())


def supervise(name: str, seeds: list[bytes], seconds: int, findings: Path) -> tuple[int, int, str]:
    """Fuzz one target for `seconds` in a child process.

    Return (number of executions, covered edges, findings as text or an empty string).
    """
    with tempfile.TemporaryDirectory() as directory:
        corpus = Path(directory) / "corpus"
        corpus.mkdir()
        for n, seed in enumerate(seeds):
            (corpus / f"seed-{n}").write_bytes(seed)
        done = subprocess.run(
            [
                sys.executable, "-m", "tests.fuzz.run", "--child", name, str(corpus), f"-max_total_time={seconds}",
                f"-max_len={INPUT_BYTES_MAX}", f"-timeout={SLOW_S}", f"-rss_limit_mb={MEMORY_MB_MAX}",
                "-print_final_stats=1", f"-artifact_prefix={findings}/{name}-",
            ],
            capture_output=True, check=False, cwd=ROOT, env={**os.environ, "TMPDIR": directory},
        )  # fmt: skip
    output = done.stderr.decode("utf-8", "replace") + done.stdout.decode("utf-8", "replace")
    executed = _EXECUTED.search(output)
    covered = _COVERAGE.findall(output)
    return int(executed[1]) if executed else 0, int(covered[-1]) if covered else 0, output if done.returncode else ""


def attack(seconds: int, seed: int) -> bool:
    """Send garbage to every port of a running ensemble. Return whether the ensemble survived it."""
    from tests.fuzz.ports import attack_new_ensemble

    with tempfile.TemporaryDirectory() as directory:
        try:
            output = attack_new_ensemble(Path(directory), seconds, seed)
        except AssertionError as problem:
            sys.stdout.write(f"{PORTS:16} FOUND {problem}\n")
            return False
    sys.stdout.write(f"{PORTS:16} {output}\n")
    sys.stdout.flush()
    return True


def main() -> int:
    """Run the command line and return the exit code."""
    if sys.argv[1:2] == ["--child"]:
        fuzz(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--target", default="all")
    parser.add_argument("--seed", type=int, default=0, help=f"of {PORTS} alone")
    parser.add_argument("--findings", type=Path, default=ROOT / ".zabka" / "fuzz")
    parser.add_argument("--replay", type=Path)
    options = parser.parse_args()
    from tests.fuzz.targets import TARGETS

    if options.target not in ("all", PORTS, *TARGETS):
        parser.error(f"there is no target {options.target}; there are all, {PORTS}, {', '.join(TARGETS)}")
    if options.replay is not None:
        replay(options.target, options.replay)
        return 0
    options.findings.mkdir(parents=True, exist_ok=True)
    found = 0
    if options.target in ("all", PORTS):
        found += not attack(options.seconds, options.seed)
    for name in TARGETS if options.target == "all" else [options.target] if options.target != PORTS else []:
        executed, covered, problem = supervise(name, TARGETS[name].seeds(), options.seconds, options.findings)
        sys.stdout.write(
            f"{name:16} {executed:>12,} executions {covered:>6} edges {'FOUND' if problem else 'nothing'}\n"
        )
        sys.stdout.flush()
        if problem:
            found += 1
            (options.findings / f"{name}.txt").write_text(problem)
            sys.stdout.write("".join(f"    {line}\n" for line in problem.splitlines()[-40:]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
