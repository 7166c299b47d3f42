"""`zabka peer`: one ensemble server in the foreground, from its zoo.cfg to its exit code."""

from __future__ import annotations

import asyncio
import gc
import random
import secrets
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from zabka.ensemble.ids import PeerId, Zxid, zxid_text
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.runtime.descriptors import may_open_all_files
from zabka.ensemble.runtime.fault_ledger import FaultLedger
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.links import ControlSocket, FaultTable, LinkFaults
from zabka.ensemble.runtime.node_process import new_event_loop, node_logger
from zabka.ensemble.runtime.workers import THREADS
from zabka.ensemble.server.config.dynamic_config import DynamicConfigFiles
from zabka.ensemble.server.config.limits import Limits
from zabka.ensemble.server.config.tls import TlsStore
from zabka.ensemble.server.config.zoo_cfg import ConfigError, ZooConfig, load
from zabka.ensemble.server.net.admission import Admission
from zabka.ensemble.server.net.client_faults import ClientFaults
from zabka.ensemble.server.net.client_port import ClientPort, now_ms
from zabka.ensemble.server.net.election_port import ElectionPort
from zabka.ensemble.server.net.peer_security import PeerSecurity
from zabka.ensemble.server.net.peer_tap import PeerTap
from zabka.ensemble.server.net.quorum_auth import QuorumAuth
from zabka.ensemble.server.net.quorum_port import QuorumPort
from zabka.ensemble.server.net.sockets import PortError
from zabka.ensemble.server.operator.operator_view import OperatorView
from zabka.ensemble.server.operator.running_peer import RunningPeer
from zabka.ensemble.server.process.driver import PeerDriver
from zabka.ensemble.server.process.endings import Stopped
from zabka.ensemble.server.process.environment import PeerEnvironment
from zabka.ensemble.server.process.membership_ports import MembershipPorts, peer_names
from zabka.ensemble.server.process.ownership import OwnedMembershipFiles, claim
from zabka.ensemble.tree.backlog import ANSWERS_BYTES_MAX
from zabka.ensemble.tree.stored import StoredNodes
from zabka.ensemble.tree.znode import HEAD_BYTES
from zabka.ensemble.txnlog.directories import Directories
from zabka.ensemble.txnlog.directory import open_directories
from zabka.ensemble.txnlog.errors import DataDirectoryError
from zabka.ensemble.txnlog.files import read_bytes
from zabka.ensemble.txnlog.losses import ASIDE_PREFIX, MARKER_NAME
from zabka.ensemble.txnlog.recovery import Recovery, RecoveryPolicy, purge, recover
from zabka.ensemble.txnlog.restoring import take_received
from zabka.ensemble.txnlog.snapshots import write_snapshot
from zabka.ensemble.txnlog.storage import MembershipFiles, Storage, complaint, is_full
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.effects import Recovered
from zabka.ensemble.zab.peer import Peer
from zabka.journal.events import HistoryReplaced, NodeStarted
from zabka.journal.message_log import open_message_log
from zabka.journal.writer import JournalWriter

GC_THRESHOLDS = (50_000, 20, 50)
"""Thresholds of the garbage collector (`gc.set_threshold`), higher than Python's defaults.

With them, collections are rarer and larger. Reference counting already frees most of a peer's objects at once.
"""
NONCE_BYTES = 30
SWITCH_INTERVAL_S = 0.0005
"""Maximum time that the storage thread waits for the busy event loop's thread before it can run."""
ORACLE_AGREES = b"1"
EXTRA_BYTES_MIN = 1024


def oracle_agrees(path: Path) -> bool:
    """Return whether the oracle's file begins with a 1 (QuorumOracleMaj); False if it is missing or unreadable."""
    try:
        with path.open("rb") as file:
            return file.read(1) == ORACLE_AGREES
    except OSError:
        return False


class OracleWatch:
    """Reads the oracle's file every half tick, in an ensemble of two servers, and reports each change.

    The oracle allows a server to continue without the other one. (ZooKeeper reads the oracle only when a server has to
    decide whether to continue; it decides this every half tick.)
    """

    def __init__(self, path: Path, tick_time_ms: int, notify: Callable[[bool], None]) -> None:
        self._path = path
        self._pause_s = tick_time_ms / 2000
        self._notify = notify
        self._agreed = False

    def start(self) -> None:
        """Read the oracle's file now, and every half tick from now on."""
        agrees = oracle_agrees(self._path)
        if agrees is not self._agreed:
            self._agreed = agrees
            self._notify(agrees)
        asyncio.get_running_loop().call_later(self._pause_s, self.start)


def main(config_path: Path) -> int:
    """Run a peer until it is stopped; return the process's exit code. Errors are one line on standard error."""
    try:
        while run_peer(config_path):
            pass
    except (ConfigError, DataDirectoryError, PortError, Stopped) as trouble:
        sys.stderr.write(f"zabka peer: {trouble}\n")
        return 1
    except OSError as trouble:
        sys.stderr.write(f"zabka peer: {complaint(trouble) if is_full(trouble) else trouble}\n")
        return 1
    return 0


def run_peer(config_path: Path) -> bool:
    """Run a peer until SIGTERM or SIGINT, or until a snapshot is restored; return whether to restart the peer.

    Raises ConfigError, DataDirectoryError, PortError or OSError if the peer cannot start, and Stopped if it cannot
    continue.
    """
    may_open_all_files()
    config = load(config_path)
    log = node_logger(config.node)
    for warning in config.warnings:
        log.warning(warning)
    with ExitStack() as held:
        # Disable garbage collection during loading: it would examine up to millions of objects and free none, because
        # the loaded objects are needed.
        gc.disable()
        loaded = load_history(config, held, log)
        journal = JournalWriter(config.journal_dir, config.node, full=config.journal_full)
        held.callback(journal.close)
        messages = open_message_log(config.journal_dir, config.node, config.messages)
        if messages is not None:
            held.callback(messages.close)
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        environment = PeerEnvironment(
            log=log,
            journal=journal,
            random=random.Random(),
            nonce=lambda: secrets.token_urlsafe(NONCE_BYTES),
            files=HOST,
            workers=THREADS,
            clock_ns=time.monotonic_ns,
            started=_collect_what_changes,
            messages=messages,
        )
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(serve(config, loaded, environment))


def _collect_what_changes(running: RunningPeer) -> None:
    # Exclude the loaded objects from later collections, because they are needed permanently.
    gc.freeze()
    gc.enable()


def load_history(config: ZooConfig, held: ExitStack, log: structlog.BoundLogger, files: Files = HOST) -> Loaded:
    """Lock the data directories until `held` is closed, and load their data.

    Raises DataDirectoryError, OSError.
    """
    directories, locks = open_directories(config.data_dir, config.data_log_dir, files)
    for lock in locks:
        held.callback(lock.release)
    claim(config, files)
    began_ms = now_ms()
    restored = take_received(directories, config.my_id if config.distributed else None)
    if restored is not None:
        log.warning("the history is that of a restored snapshot", zxid=zxid_text(restored))
    recovery = recover(directories, recovery_policy(config))
    for damage in recovery.damages:
        log.warning("found damage on the disk", file=damage.file, reason=damage.reason, action=damage.action)
    if (oversized := oversized_warning(recovery.recovered, config.limits)) is not None:
        log.warning(oversized)
    if not recovery.recovered.complete:
        marker = directories.data / MARKER_NAME
        log.warning(
            "transactions may be missing here: the vote of this server counts when a leader has sent them. If no "
            f"leader is elected because all lack some, put the files {ASIDE_PREFIX}* back and remove {marker}",
            reason=read_bytes(marker, files).decode(errors="replace") or "an operator's mark",
        )
    return Loaded(directories, recovery, restored, now_ms() - began_ms)


def ensemble_config(config: ZooConfig) -> EnsembleConfig:
    """Return the settings in zoo.cfg that the core (peer and service) uses."""
    return EnsembleConfig(
        my_id=config.my_id,
        voters=config.voters,
        observers=config.observers,
        tick_time_ms=config.tick_time,
        init_limit=config.init_limit,
        sync_limit=config.sync_limit,
        min_session_timeout_ms=config.min_session_timeout,
        max_session_timeout_ms=config.max_session_timeout,
        snap_count=config.storage.snap_count,
        snap_count_max=config.storage.snap_count_max,
        snap_size_limit_bytes=config.storage.snap_size_limit_bytes,
        committed_log_length=config.storage.committed_log_length,
        snapshot_size_factor=config.storage.snapshot_size_factor,
        full_journal=config.journal_full,
        read_only_mode=config.read_only_mode,
        leader_serves=config.leader_serves or not config.distributed,
        has_oracle=config.oracle_path is not None,
        local_sessions=config.local_sessions,
        local_sessions_upgrading=config.local_sessions_upgrading,
        tree=config.tree,
        answers_bytes_max=ANSWERS_BYTES_MAX,
        membership=config.ensemble_text() if config.servers else "",
        next_membership=config.next_membership.text if config.next_membership is not None else "",
        reconfig_enabled=config.reconfig_enabled,
        several_addresses=config.several_addresses,
        standalone_enabled=config.standalone_enabled,
        auth=config.auth,
        observes_followers=bool(config.observer_master_port),
        serves_observers=bool(config.observer_master_port),
    )


def recovery_policy(config: ZooConfig) -> RecoveryPolicy:
    """Return the policy for a damaged log: a peer with other voters can fetch lost transactions from them."""
    others = sum(voter != config.my_id for voter in config.voters)
    return RecoveryPolicy(others, config.storage.trusts_empty)


class Loaded(NamedTuple):
    """A peer's directories, the data loaded from them, the loading time, and the zxid of a restored snapshot."""

    directories: Directories
    recovery: Recovery
    restored: Zxid | None
    took_ms: int


async def serve(config: ZooConfig, loaded: Loaded, environment: PeerEnvironment) -> bool:
    """Run a peer until it is stopped; return whether to restart it. Raises PortError, Stopped, OSError."""
    directories, recovery, restored, _ = loaded
    loop = asyncio.get_running_loop()
    settings = ensemble_config(config)
    service = environment.make_service(settings, environment.nonce)
    if recovery.recovered.snapshot is None:
        # Write a snapshot at the first start, as ZooKeeper does: a later start without a snapshot then shows that data
        # was lost.
        write_snapshot(directories.data, service.snapshot(), directories.files)
    peer = Peer(settings, service, recovery.recovered, environment.random)
    driver = PeerDriver(peer, service, environment.journal, config.voters, environment.log)
    AsyncioRuntime(loop, on_failure=driver.fail)
    if config.storage.retain_snapshots:
        purge(directories, config.storage.retain_snapshots)
    driver.storage = storage = Storage(
        directories,
        driver,
        loop.call_soon_threadsafe,
        workers=environment.workers,
        clock_ns=environment.clock_ns,
        policy=recovery_policy(config),
        preallocate_bytes=config.storage.preallocate_bytes,
        retain_snapshots=config.storage.retain_snapshots,
        snapshot_suffix=config.storage.snapshot_suffix,
        fsync_warning_ms=config.storage.fsync_warning_ms,
        quick_sync_us=config.storage.quick_sync_us,
        memberships=_membership_files(config, directories.files),
    )
    for event in (NodeStarted("peer", config.my_id, config.values), *recovery.damages):
        driver.emit(event)
    if restored is not None and config.journal_full:
        driver.emit(HistoryReplaced(restored))
    driver.tap = PeerTap(environment.messages) if environment.messages is not None else None
    draw, ledger = environment.random.random, FaultLedger()
    driver.clients = clients = ClientPort(
        driver, Admission(config.limits, draw, now_ms()), config.auth, driver.tap,
        ClientFaults(driver.emit, draw, now_ms, environment.count_use or ledger.count), driver.emit,
    )  # fmt: skip
    running = RunningPeer(config, peer, service, clients, storage, LinkFaults(peer_names(config.servers.items())))
    control: ControlSocket | None = None
    ending = _Ending(driver)
    driver.restart = ending.restart
    try:
        control = await _open_ports(driver, running, environment, ledger, ending.restart)
        if driver.operator is not None:
            driver.operator.on_loaded(loaded.took_ms, recovery)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ending.stop)
        driver.start()
        if config.oracle_path is not None:
            OracleWatch(config.oracle_path, config.tick_time, driver.on_oracle).start()
        environment.started(running)
        await driver.finished()
    finally:
        await _close(driver, control)
        storage.close()
    return ending.restarts


def _membership_files(config: ZooConfig, files: Files) -> MembershipFiles | None:
    """Return the writer of membership files, or None for a server without a zoo.cfg file."""
    if config.path is None:
        return None
    return OwnedMembershipFiles(DynamicConfigFiles(config.path, config.my_id, files), config, files)


class _Ending:
    """Whether an ending peer is restarted. A signal takes precedence over a restart."""

    def __init__(self, driver: PeerDriver) -> None:
        self.restarts = False
        self._driver = driver

    def restart(self, reason: str = "a snapshot was restored") -> None:
        """Stop the peer and restart it, because its state differs from the data on its disk."""
        self.restarts = True
        self._driver.stop(reason)

    def stop(self) -> None:
        """Handle SIGTERM or SIGINT: stop the peer without a restart."""
        self.restarts = False
        self._driver.stop()


async def _open_ports(
    driver: PeerDriver,
    running: RunningPeer,
    environment: PeerEnvironment,
    ledger: FaultLedger,
    restart: Callable[[], None],
) -> ControlSocket | None:
    config, clients, faults, log = running.config, running.clients, running.links, environment.log
    driver.operator = OperatorView(
        running, log, on_failure=driver.fail, restart=restart, take_snapshot=driver.take_snapshot
    )
    security, auth = peer_security(config, log.warning), quorum_auth(config, environment.nonce)
    my_id = PeerId(config.my_id)
    mine = config.servers.get(config.my_id)
    if mine is not None and config.distributed:
        addresses = mine.listens_at(on_all=config.listen_on_all)
        servers = {PeerId(i): line for i, line in config.servers.items()}
        init_limit_s = config.init_limit * config.tick_time / 1000
        driver.elections = elections = ElectionPort(
            my_id, servers, faults, driver, security=security, auth=auth, reachability=config.reachability,
            tap=driver.tap,
        )  # fmt: skip
        driver.quorum = quorum = QuorumPort(
            my_id, servers, faults, driver, init_limit_s, security=security, auth=auth,
            reachability=config.reachability, tap=driver.tap,
        )  # fmt: skip
        quorum.observer_master_port = config.observer_master_port
        ports = (elections, quorum, clients)
        driver.membership = MembershipPorts(my_id, mine, ports, faults, log, listens_on_all=config.listen_on_all)
        await driver.quorum.listen(addresses, log.warning)
        await driver.elections.listen(addresses, log.warning)
    await _listen_for_clients(config, clients, log.warning)
    await driver.operator.open()
    if config.control_socket is None:
        return None

    def hold(table: FaultTable) -> None:
        ledger.move_to(table.ledger)
        running.hold_faults(table)

    control = ControlSocket(config.control_socket, hold, lambda: report(running))
    await control.start()
    return control


async def _listen_for_clients(config: ZooConfig, clients: ClientPort, report: Callable[[str], None]) -> None:
    store = TlsStore(config.client_tls, report) if config.client_tls is not None else None
    if store is not None and config.client_port is not None and config.client_port_unification:
        await clients.listen_unified(config.client_address, config.client_port, store)
    elif config.client_port is not None:
        await clients.listen(config.client_address, config.client_port)
    if store is not None and config.secure_client_port is not None:
        await clients.listen_secure(config.secure_client_address, config.secure_client_port, store)


def peer_security(config: ZooConfig, report: Callable[[str], None]) -> PeerSecurity | None:
    """Return the TLS settings for connections between servers, or None for plain TCP.

    Raises ConfigError.
    """
    if config.quorum_tls is None:
        return None
    store = TlsStore(config.quorum_tls, report)
    return PeerSecurity(store, dials=config.ssl_quorum, accepts_plain=config.port_unification)


def quorum_auth(config: ZooConfig, nonce: Callable[[], str]) -> QuorumAuth | None:
    """Return the SASL authentication for connections between servers, or None if it is disabled."""
    sasl = config.quorum_sasl
    return QuorumAuth(sasl, nonce) if sasl is not None else None


def report(running: RunningPeer) -> dict[str, Any]:
    """Return a peer's state as a JSON object, for the host agent."""
    peer, counts = running.peer, running.clients.fault_counts()
    return {**msgspec.to_builtins(peer.status()), "state": peer.state.name, "request_faults": counts}


async def _close(driver: PeerDriver, control: ControlSocket | None) -> None:
    for port in (control, driver.operator, driver.clients, driver.quorum, driver.elections):
        if port is not None:
            await port.close()
    # Give the transports time to write their queues and to detect closed connections.
    await asyncio.sleep(0)


def readable_bytes(limits: Limits) -> int:
    """Return the maximum size of a stored value that Apache ZooKeeper can read.

    This is jute.maxbuffer plus jute.maxbuffer.extrasize, or twice jute.maxbuffer if the latter is not set.
    """
    extra = limits.frame_bytes if limits.extra_bytes is None else limits.extra_bytes
    return limits.frame_bytes + max(extra, EXTRA_BYTES_MIN)


def oversized_warning(recovered: Recovered, limits: Limits) -> str | None:
    """Return a warning about the first value in the log or snapshot that Apache ZooKeeper cannot read, or None.

    Apache ZooKeeper rejects a length above jute.maxbuffer + jute.maxbuffer.extrasize, even in a server's own log and
    snapshots: the server then does not start (BinaryInputArchive.checkLength, "Unreasonable length"). This project's
    server starts and logs a warning, because stored values were acknowledged and each record has a checksum. Another
    reason is that closing a session writes one list of its ephemerals, which can exceed the limit although no znode or
    request does: a client that can create ephemerals could prevent every server of an ensemble from restarting.
    """
    allowed = readable_bytes(limits)
    found = _in_snapshot(recovered, allowed) or _in_log(recovered, allowed)
    if found is None:
        return None
    return (
        f"{found}, which is more than jute.maxbuffer={limits.frame_bytes} allows (a stored value may have {allowed}): "
        "it is served all the same; Apache ZooKeeper would not start, nor clients with this limit read it"
    )


def _in_log(recovered: Recovered, allowed: int) -> str | None:
    for txn in recovered.txns:
        if (size := len(txn.raw or txn.encoded())) > allowed:
            return f"the transaction {zxid_text(txn.zxid)} in the log has {size} bytes"
    return None


def _in_snapshot(recovered: Recovered, allowed: int) -> str | None:
    nodes = recovered.snapshot.nodes if recovered.snapshot is not None else ()
    # Compare the size of the largest encoded znode first. It exceeds the size of the znode's data, so usually this one
    # check suffices, without Python code for each znode.
    if isinstance(nodes, StoredNodes) and max(map(len, nodes.values), default=0) > allowed:
        for path, value in zip(nodes.paths, nodes.values, strict=True):
            if (size := len(value) - HEAD_BYTES) > allowed:
                return f"{path} has {size} bytes"
    return None
