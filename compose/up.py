"""`zabka up` and `down`: start the agent, wait until the cluster is ready, stop it cleanly."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import msgspec

from zabka.agent.http_call import NoAnswer, call
from zabka.agent.loopback import loopback
from zabka.agent.protocol import API_NODE, NEWER_STATE
from zabka.agent.token_file import read_token
from zabka.compose.files import (
    API_TOKEN_FILE,
    TOKEN_FILE,
    Run,
    forget_run,
    is_running,
    load_run,
    save_run,
    take_lock,
    write_host,
)
from zabka.compose.launch import die_with_parent, start_agent
from zabka.compose.plan import Requested, plan
from zabka.compose.progress import Progress
from zabka.compose.security import JSON, PROPERTIES, write_secrets
from zabka.compose.status import ANSWER_S, read_snapshot
from zabka.compose.topology import Topology, load, node_directory, save, secrets_directory
from zabka.ensemble.runtime.extras import is_installed, sentence
from zabka.ensemble.server.config.security_cfg import without_secrets

READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 20.0
_POLL_S = 0.1
_READY_POLL_S = 0.05
_LOG_LINES = 12


FILES_MIN = 256
"""Required limit of open files per process. A node opens a few dozen, plus two per connection or replica."""
_SIGINT_BIT = 1 << (signal.SIGINT - 1)


class CannotStart(Exception):
    """The cluster did not start. The message is the reason."""


class Stopped(Exception):
    """A signal arrived while the cluster was starting."""


def prepare(wanted: Requested, data: Path) -> Topology:
    """Write the topology and the nodes' files into the data directory.

    Raises BadTopology, BadPlan, PortTaken, Lacking, OSError. The caller must have locked the directory.
    """
    topology = plan(wanted, load(data))
    if topology.secure:
        write_secrets(topology, secrets_directory(topology, data), data)
    save(topology, data)
    return topology


def up(
    wanted: Requested, data: Path, progress: Progress, *, detach: bool, companion: Callable[[], str] | None = None
) -> int:
    """Start a cluster. Return after a signal or, with `detach`, once the cluster is ready.

    The exit code is 128 plus the signal's number if a signal arrived before the cluster was ready. `companion` is
    called once the cluster is ready: it starts another program that runs with the cluster, and returns a note about
    that program. Raises InUse, BadTopology, BadPlan, PortTaken, CannotStart, Lacking, OSError.
    """
    # This takes effect only if the parent requests it, as the test fixtures do.
    die_with_parent(signal.SIGTERM)
    _enough_files()
    data.mkdir(parents=True, exist_ok=True)
    lock = take_lock(data)
    # If an earlier run was killed, its run record may contain an agent's pid that now belongs to another process.
    # `down` would kill that process.
    forget_run(data)
    try:
        topology = prepare(wanted, data)
        runner = _Foreground(topology, data, progress, lock, detach=detach)
        return runner.run(companion)
    finally:
        os.close(lock)


def _enough_files() -> None:
    """Raise CannotStart if the limit of open files is too low: connections of clients would then never be accepted."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < FILES_MIN:
        raise CannotStart(
            f"a process may open {limit} files only; nodes need {FILES_MIN} at least (ulimit -n {FILES_MIN})"
        )


class _Foreground:
    """One run of `up`: starts the cluster and, unless detached, waits for a signal and stops it."""

    def __init__(self, topology: Topology, data: Path, progress: Progress, lock: int, *, detach: bool) -> None:
        self._topology = topology
        self._data = data
        self._progress = progress
        self._lock = lock
        self._detach = detach
        self._signals = 0
        self._signal = int(signal.SIGINT)
        self._agent: subprocess.Popen[bytes] | None = None

    def run(self, companion: Callable[[], str] | None) -> int:
        """Start the cluster, wait for a signal, and stop it."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        agent = self._start_agent()
        try:
            save_run(self._data, Run(agent.pid, self._topology.api_url))
            wait_until_ready(self._topology, self._data, self._progress, self._trouble)
        except (CannotStart, Stopped, OSError) as reason:
            # The command failed, so stop the cluster.
            self._stop()
            if isinstance(reason, Stopped):
                # Use the shell's convention for exit codes. After exit code 0, a script that uses `--detach` would
                # expect a running cluster.
                return 128 + self._signal
            raise
        notes = self._notes()
        if companion is not None:
            notes.append(companion())
        self._progress.ready(self._topology.api_url, notes)
        if self._detach:
            return 0
        while agent.poll() is None and not self._asked_to_stop:
            # A signal handler runs only between two sleeps, so each sleep is short.
            time.sleep(_POLL_S)
        # If SIGTERM ended the agent, the end was requested, because `zabka down` sends SIGTERM to the agent.
        asked = self._asked_to_stop or agent.returncode in (0, -signal.SIGTERM)
        if not asked:
            self._progress.error(f"the host agent exited (exit code {agent.returncode})")
        self._stop()
        return 0 if asked else 1

    def _notes(self) -> list[str]:
        topology = self._topology
        notes = [f"ensemble  {topology.connect}"]
        notes += [f"brokers   {topology.bootstrap}"] if topology.brokers else []
        notes.append(f"data      {self._data}")
        if topology.secure and topology.brokers:
            notes.append(f"clients   {self._data / PROPERTIES}, {self._data / JSON} (librdkafka)")
        if topology.secure:
            notes.append(f"secrets   {secrets_directory(topology, self._data)} (certificates, other users' settings)")
        if topology.secure or not topology.on_loopback():
            notes.append(
                f"token     {self._data / API_TOKEN_FILE} (calls that change something or read records need it)"
            )
        if not topology.on_loopback():
            notes += exposed(topology)
        if not is_installed("dashboard"):
            notes.append(f"page      {sentence('dashboard', 'the page is')}")
        overrides = {**topology.zookeeper, **topology.kafka}
        if overrides:
            notes.append("settings  " + " ".join(f"{k}={v}" for k, v in without_secrets(overrides).items()))
        return notes

    def _start_agent(self) -> subprocess.Popen[bytes]:
        config = write_host(self._topology, self._topology.hosts[0], self._data)
        parent = None if self._detach else os.getpid()
        self._agent = start_agent(config, (self._lock,), parent)
        return self._agent

    @property
    def _asked_to_stop(self) -> bool:
        return bool(self._signals) or make_was_interrupted()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        self._signal = number
        if self._signals > 1 and self._agent is not None:
            # This is the second Ctrl-C, so kill the agent; the kernel then kills the agent's children.
            self._agent.kill()

    def _trouble(self) -> None:
        assert self._agent is not None
        if self._asked_to_stop:
            raise Stopped
        if self._agent.poll() is not None:
            tail = _tail(self._data / self._topology.hosts[0].name / "agent.log")
            raise CannotStart(f"the host agent exited with code {self._agent.returncode}{tail}")

    def _stop(self) -> None:
        assert self._agent is not None
        if self._agent.poll() is None:
            self._progress.print_line("stopping brokers, peers and the dashboard (press Ctrl-C again to kill them)")
            self._agent.terminate()
            try:
                self._agent.wait(STOP_TIMEOUT_S - 1)
            except subprocess.TimeoutExpired:
                self._agent.kill()
                self._agent.wait()
        forget_run(self._data)
        self._progress.print_line("stopped")


def exposed(topology: Topology) -> list[str]:
    """Return warnings if the cluster can be reached from other machines."""
    warnings = [] if topology.secure else [
        f"warning   peers and brokers listen on {topology.api_bind} without authentication: "
        "every client that reaches these ports can read and write everything"
    ]  # fmt: skip
    if any(loopback(broker.advertised) for broker in topology.brokers):
        warnings.append(
            f"warning   brokers advertise {topology.brokers[0].advertised}, which only this machine reaches, "
            "because it has no other address now. Give the address for clients with --host"
        )
    return warnings


def wait_until_ready(topology: Topology, data: Path, progress: Progress, trouble: Callable[[], None]) -> None:
    """Return once the cluster accepts requests.

    Raises CannotStart with the reason, or an exception of `trouble`, which is called repeatedly.
    """
    deadline = time.monotonic() + READY_TIMEOUT_S
    token = read_token(topology.tokens(data) / TOKEN_FILE)
    waiting_for = "the host agent"
    while time.monotonic() < deadline:
        trouble()
        _look_for_dead(topology, data, token)
        missing = _missing(topology, topology.authority(data))
        if not missing:
            return
        if missing[0] != waiting_for:
            waiting_for = missing[0]
            progress.waiting(waiting_for)
        time.sleep(_READY_POLL_S)
    raise CannotStart(f"not ready after {READY_TIMEOUT_S:.0f} s: {waiting_for}")


def _missing(topology: Topology, authority: Path | None) -> list[str]:
    """Return which of quorum, brokers, controller and page are not available yet."""
    try:
        ready = call("GET", f"{topology.api_url}/readyz", timeout_s=ANSWER_S, authority=authority)
        if ready.status == 503:
            problem = json.loads(ready.body)
            return list(problem.get("missing") or [problem["detail"]])
        page = call("GET", topology.api_url, timeout_s=ANSWER_S, authority=authority)
        if ready.is_success and page.is_success:
            cluster = json.loads(ready.body)["brokers"]
            return [f"broker {b.id} is not registered" for b in topology.brokers if b.id not in cluster]
    except (NoAnswer, ValueError, KeyError):
        pass
    return ["the dashboard does not respond yet"]


def _look_for_dead(topology: Topology, data: Path, token: str) -> None:
    """Raise CannotStart if a node's process ended during its start, or the API's process ended with NEWER_STATE."""
    try:
        snapshot = read_snapshot(topology.hosts[0], token)
    except (NoAnswer, msgspec.MsgspecError):
        return
    for process in snapshot.processes:
        ended = process.process == "down" and process.exit_code is not None
        if ended and (process.name != API_NODE or process.exit_code == NEWER_STATE):
            tail = _tail(node_directory(data, process.name) / f"{process.name}.log")
            raise CannotStart(f"{process.name} ended with exit code {process.exit_code}{tail}")


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    except OSError:
        return ""
    return f"; the end of {log}:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""


def down(data: Path) -> bool:
    """Stop the cluster of a data directory. Return False if none was running.

    Raises CannotStart if the cluster cannot be stopped.
    """
    if not is_running(data):
        forget_run(data)
        return False
    run = load_run(data)
    if run is None:
        raise CannotStart(f"a cluster holds {data}, but does not say which process it is")
    deadline = time.monotonic() + STOP_TIMEOUT_S
    _signal(run.agent_pid, signal.SIGTERM)
    while time.monotonic() < deadline:
        if not is_running(data):
            forget_run(data)
            return True
        time.sleep(_POLL_S)
    _signal(run.agent_pid, signal.SIGKILL)
    forget_run(data)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise CannotStart(f"process {pid} belongs to another user") from None


def make_was_interrupted(proc: Path = Path("/proc")) -> bool:
    """Return whether this process's parent is a `make` that received SIGINT.

    A terminal's Ctrl-C reaches both make and its children, but a SIGINT sent only to make does not reach the children:
    GNU make passes on only SIGTERM, and waits for its children. While make waits, it blocks SIGINT, which is visible in
    /proc.
    """
    parent = proc / str(os.getppid())
    try:
        if (parent / "comm").read_text().strip() not in ("make", "gmake"):
            return False
        status = (parent / "status").read_text()
    except OSError:
        return False
    blocked = next((line for line in status.splitlines() if line.startswith("SigBlk:")), "SigBlk: 0")
    return bool(int(blocked.split()[1], 16) & _SIGINT_BIT)
