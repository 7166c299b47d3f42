"""The decorator `simulated`, which runs a test function and its asyncio programs in simulated worlds with many seeds.

The history of a world depends on the iteration order of sets of strings, and so on PYTHONHASHSEED, which Python reads
only at its start. Seeds therefore run in a process with PYTHONHASHSEED=0. If the current process has another value, the
pytest plugin runs each test in a child process, and a script restarts itself.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from zabka.simulation.jitter import Span
    from zabka.testing.worlds.finding import Command
    from zabka.testing.worlds.seed_test import Parameters
    from zabka.testing.worlds.shrinking import Selected
    from zabka.testing.worlds.world import SimulatedWorld

HASH_SEED = "PYTHONHASHSEED"
SEEDS, FAULTS, JITTER = "ZABKA_SEED", "ZABKA_FAULTS", "ZABKA_JITTER"
"""Environment variables that select a seed, its faults and its jitter if a script runs the test.

In pytest, options select them.
"""
PARAMETERS = "zabka_simulated"
"""Name of the attribute with which a decorated function refers to its parameters."""


def _write_to_stderr(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Selection(NamedTuple):
    """Selection of the seeds with which a test runs, of the faults to inject, and of the times with jitter."""

    command: Command | None = None
    seeds: Iterable[int] | None = None
    """Seeds to run, or None for all seeds of the test."""
    faults: Collection[int] | None = None
    """Numbers of the faults to inject, or None for all faults."""
    jitter: Sequence[Span] | None = None
    """Spans of virtual time in which the schedule has jitter, or None for all times."""
    shows_progress: Callable[[str], object] = _write_to_stderr
    """Shows a line about the progress of shrinking to the user."""


_SELECTED: ContextVar[Selection] = ContextVar("selected seeds")


@contextmanager
def selected(selection: Selection) -> Iterator[None]:
    """During a `with` block, run decorated tests only with the selected seeds, faults and jitter."""
    token = _SELECTED.set(selection)
    try:
        yield
    finally:
        _SELECTED.reset(token)


def simulated(
    *,
    seeds: int = 100,
    peers: int = 3,
    brokers: int = 3,
    faults: str | Iterable[str] | None = None,
    faults_s: float = 20.0,
    limit_s: float = 600.0,
    settings: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Awaitable[object]]], Callable[..., None]]:
    """Run an `async def` test in the simulated world of each of `seeds` seeds, until one fails.

    The first parameter of the test is its `SimulatedWorld`; further parameters are fixtures, or values of
    hypothesis. `faults` is a mix, such as "chaos", or kinds of faults (`zabka.simulation.faults.program_faults`).
    They are injected for `faults_s` virtual seconds from the start of the first program; then all faults are
    healed. A test that takes longer than `limit_s` virtual seconds fails. The keys of `settings` are ZooKeeper's
    and Kafka's.

    Raises UnknownFaults, and when the test runs, the exception of the first failing seed, with the report of the
    failure as a note of the exception.
    """

    def decorate(function: Callable[..., Awaitable[object]]) -> Callable[..., None]:
        from zabka.simulation.faults.program_faults import kinds_of
        from zabka.testing.worlds.seed_test import Parameters

        kinds = None if faults is None else kinds_of(faults if isinstance(faults, str) else tuple(faults), brokers)
        parameters = Parameters(
            seeds=seeds, peers=peers, brokers=brokers, faults=kinds, faults_s=faults_s, limit_s=limit_s,
            settings=settings or {},
        )  # fmt: skip

        @wraps(function)
        def run(*args: Any, **options: Any) -> None:
            __tracebackhide__ = True
            _run_seeds(parameters, function, args, options)

        signature = inspect.signature(function)
        world = next(name for name in signature.parameters if name not in ("self", "cls"))
        rest = [each for name, each in signature.parameters.items() if name != world]
        run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        setattr(run, PARAMETERS, parameters)
        return run

    return decorate


def _run_seeds(
    parameters: Parameters, function: Callable[..., Awaitable[object]], args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    from zabka.testing.worlds.finding import Finding
    from zabka.testing.worlds.seed_test import run_seed
    from zabka.testing.worlds.shrinking import EVERYTHING, Selected

    __tracebackhide__ = True
    selection = _SELECTED.get(Selection())
    if selection.command is None:
        _fix_hash_seed_of_script()
        selection = _of_script(function)
    assert selection.command is not None

    def body(world: SimulatedWorld) -> Awaitable[object]:
        # If the test is a method, its first argument is the instance.
        before = args[:1] if next(iter(inspect.signature(function).parameters)) == "self" else ()
        return function(*before, world, *args[len(before) :], **options)

    for seed in range(parameters.seeds) if selection.seeds is None else selection.seeds:
        run = run_seed(parameters, body, seed, selection.faults, jitter=selection.jitter)
        if run.failure is None:
            continue
        if type(run.failure).__name__ not in _NO_FAILURES:
            chosen = Selected(None if selection.faults is None else list(selection.faults), selection.jitter)
            finding = Finding(parameters, body, seed, run, selection.command, chosen)
            shrinks = chosen == EVERYTHING and not _is_given_by_hypothesis()
            run.failure.add_note(finding.report(selection.shows_progress if shrinks else None))
        raise run.failure


_NO_FAILURES = ("Skipped", "XFailed")
"""Names of the exceptions with which pytest.skip and pytest.xfail end a test; they are not failures."""


def _is_given_by_hypothesis() -> bool:
    """Return whether hypothesis is running the test.  If so, it will repeat a failing test with many values."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and bool(hypothesis.currently_in_test_context())


def hash_seed_is_fixed() -> bool:
    """Return whether this process has PYTHONHASHSEED=0."""
    return os.environ.get(HASH_SEED) == "0" and not sys.flags.hash_randomization


def _fix_hash_seed_of_script() -> None:
    """Run the script again with PYTHONHASHSEED=0.  An interactive session continues with its current value."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and not hash_seed_is_fixed():
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, HASH_SEED: "0"})


def _of_script(function: Callable[..., Awaitable[object]]) -> Selection:
    """Return the selection of seeds, faults and jitter in a script's environment variables.

    The selection includes the command that runs the script with one seed.
    """
    from zabka.simulation.jitter import spans_of
    from zabka.testing.worlds.finding import Command

    def command(seed: int, chosen: Selected) -> str:
        given = [f"{SEEDS}={seed}", *(f"ZABKA_{name.upper()}={text}" for name, text in texts_of(chosen).items())]
        return f"{' '.join(given)} {shlex.join(['python', *sys.orig_argv[1:]])}"

    seed, faults, jitter = map(os.environ.get, (SEEDS, FAULTS, JITTER))
    return Selection(
        Command(function.__name__, command),
        None if seed is None else [int(seed)],
        None if faults is None else numbers_of(faults),
        None if jitter is None else spans_of(jitter),
    )


def texts_of(chosen: Selected) -> dict[str, str]:
    """Return the selected faults and jitter as text for options or environment variables, keyed by "faults", "jitter".

    If all faults or all jitter are selected, the key is missing.
    """
    from zabka.simulation.jitter import text_of

    faults = {} if chosen.faults is None else {"faults": numbers_text(chosen.faults)}
    return faults if chosen.jitter is None else {**faults, "jitter": text_of(chosen.jitter)}


def numbers_text(numbers: Iterable[int]) -> str:
    """Return numbers as text for an environment variable or an option, or "none" if there are no numbers."""
    return ",".join(map(str, numbers)) or "none"


def numbers_of(text: str) -> list[int]:
    """Parse text from `numbers_text`. Raises ValueError."""
    return [] if text == "none" else [int(number) for number in text.split(",")]
