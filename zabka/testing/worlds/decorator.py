"""The decorator `simulated`: runs a test function with the user's asyncio programs in the worlds of many seeds.

Histories depend on the iteration order of sets of strings, and so on PYTHONHASHSEED, which Python reads only at its
start. Seeds therefore run in a process with PYTHONHASHSEED=0. If the current process has another value, the pytest
plugin runs each test in a child process, and a script restarts itself.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from zabka.testing.worlds.finding import Command
    from zabka.testing.worlds.seed_test import Parameters
    from zabka.testing.worlds.world import SimulatedWorld

HASH_SEED = "PYTHONHASHSEED"
SEEDS, FAULTS = "ZABKA_SEED", "ZABKA_FAULTS"
"""The environment variables that select a seed and its faults in a script; in pytest, options select them."""
PARAMETERS = "zabka_simulated"
"""The attribute of a decorated function with its parameters."""


class Selection(NamedTuple):
    """The seeds of a test that are run now."""

    command: Command | None = None
    seeds: Iterable[int] | None = None
    """The selected seeds; None: all seeds of the test."""
    faults: Collection[int] | None = None
    """The numbers of the faults that are injected; None: all."""


_SELECTED: ContextVar[Selection] = ContextVar("selected seeds")


@contextmanager
def selected(selection: Selection) -> Iterator[None]:
    """Run decorated tests only with these seeds within a `with` block."""
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

    __tracebackhide__ = True
    selection = _SELECTED.get(Selection())
    if selection.command is None:
        _fix_hash_seed_of_script()
        selection = _of_script(function)
    assert selection.command is not None

    def body(world: SimulatedWorld) -> Awaitable[object]:
        # A method's first argument is its instance.
        before = args[:1] if next(iter(inspect.signature(function).parameters)) == "self" else ()
        return function(*before, world, *args[len(before) :], **options)

    for seed in range(parameters.seeds) if selection.seeds is None else selection.seeds:
        run = run_seed(parameters, body, seed, selection.faults)
        if run.failure is None:
            continue
        if type(run.failure).__name__ not in _NO_FAILURES:
            finding = Finding(parameters, body, seed, run, selection.command)
            shrinks = selection.faults is None and not _is_given_by_hypothesis()
            run.failure.add_note(finding.report(shrinks=shrinks))
        raise run.failure


_NO_FAILURES = ("Skipped", "XFailed")
"""The exceptions with which pytest.skip and pytest.xfail end a test."""


def _is_given_by_hypothesis() -> bool:
    """Return whether hypothesis runs the test: after a failure, hypothesis repeats the test with many values."""
    hypothesis = sys.modules.get("hypothesis")
    return hypothesis is not None and bool(hypothesis.currently_in_test_context())


def hash_seed_is_fixed() -> bool:
    """Return whether this process has PYTHONHASHSEED=0."""
    return os.environ.get(HASH_SEED) == "0" and not sys.flags.hash_randomization


def _fix_hash_seed_of_script() -> None:
    """Start a script again with PYTHONHASHSEED=0; an interactive session continues with its present value."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is not None and not hash_seed_is_fixed():
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, HASH_SEED: "0"})


def _of_script(function: Callable[..., Awaitable[object]]) -> Selection:
    """Return the seeds that a script's environment variables select, and the command that runs one seed."""
    from zabka.testing.worlds.finding import Command

    def command(seed: int, faults: list[int] | None) -> str:
        chosen = f"{SEEDS}={seed}" + ("" if faults is None else f" {FAULTS}={numbers_text(faults)}")
        return f"{chosen} {shlex.join(['python', *sys.orig_argv[1:]])}"

    seed, faults = os.environ.get(SEEDS), os.environ.get(FAULTS)
    return Selection(
        Command(function.__name__, command),
        None if seed is None else [int(seed)],
        None if faults is None else numbers_of(faults),
    )


def numbers_text(numbers: Iterable[int]) -> str:
    """Format numbers for an environment variable or option; return "none" if there are no numbers."""
    return ",".join(map(str, numbers)) or "none"


def numbers_of(text: str) -> list[int]:
    """Parse the string that `numbers_text` returns. Raises ValueError."""
    return [] if text == "none" else [int(number) for number in text.split(",")]
