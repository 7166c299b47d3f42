"""`zabka peer`: one ensemble server in the foreground, from its zoo.cfg to its exit code."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import structlog

from ensemble.asyncio_runtime import AsyncioRuntime
from ensemble.ids import PeerId
from ensemble.links import ControlSocket, LinkFaults
from ensemble.node_process import new_event_loop, node_logger
from ensemble.server.client_port import ClientPort
from ensemble.server.driver import PeerDriver, Stopped
from ensemble.server.election_port import ElectionPort
from ensemble.server.quorum_port import QuorumPort
from ensemble.server.sockets import PortError
from ensemble.server.words import Words
from ensemble.server.zoo_cfg import ConfigError, ZooConfig, load
from ensemble.tree.service import Service
from ensemble.txnlog.directory import open_directories
from ensemble.txnlog.errors import DataDirectoryError
from ensemble.txnlog.recovery import Directories, Recovery, recover
from ensemble.txnlog.snapshots import write_snapshot
from ensemble.txnlog.storage import Storage
from ensemble.zab.application import EnsembleConfig
from ensemble.zab.peer import Peer
from journal.events import NodeStarted
from journal.writer import JournalWriter

GC_THRESHOLDS = (50_000, 20, 50)
"""Fewer, larger collections: most of what a peer allocates is freed by reference counting at once."""
SWITCH_INTERVAL_S = 0.0005
"""How long the storage thread may have to wait for a busy event loop before it can report what is durable."""


def main(config_path: Path) -> int:
    """Run a peer until it is told to stop; the process's exit code.  Troubles are one line on standard error."""
    try:
        run_peer(config_path)
    except (ConfigError, DataDirectoryError, PortError, Stopped, OSError) as trouble:
        sys.stderr.write(f"zabka peer: {trouble}\n")
        return 1
    return 0


def run_peer(config_path: Path) -> None:
    """Run a peer until SIGTERM or SIGINT.

    Raises ConfigError, DataDirectoryError, PortError, OSError where it cannot start, Stopped where it cannot go on.
    """
    config = load(config_path)
    log = node_logger(config.node)
    for warning in config.warnings:
        log.warning(warning)
    with ExitStack() as held:
        directories, locks = open_directories(config.data_dir, config.data_log_dir)
        for lock in locks:
            held.callback(lock.release)
        recovery = recover(directories)
        for damage in recovery.damages:
            log.warning("damage found", file=damage.file, reason=damage.reason, action=damage.action)
        journal = JournalWriter(config.journal_dir, config.node, full=config.journal_full)
        held.callback(journal.close)
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(config, directories, recovery, journal, log))


def ensemble_config(config: ZooConfig) -> EnsembleConfig:
    """The part of a zoo.cfg that the core needs."""
    return EnsembleConfig(
        my_id=config.my_id,
        voters=config.voters,
        observers=config.observers,
        tick_time_ms=config.tick_time,
        init_limit=config.init_limit,
        sync_limit=config.sync_limit,
        min_session_timeout_ms=config.min_session_timeout,
        max_session_timeout_ms=config.max_session_timeout,
        snap_count=config.snap_count,
        full_journal=config.journal_full,
        membership=config.ensemble_text() if config.servers else "",
    )


def peer_names(config: ZooConfig) -> dict[str, str]:
    """Which peer answers at which address, for the fault table."""
    names: dict[str, str] = {}
    for number, line in config.servers.items():
        for port in (line.quorum_port, line.election_port, line.client_port):
            if port is not None:
                names[f"{line.host}:{port}"] = f"peer-{number}"
    return names


async def _serve(
    config: ZooConfig,
    directories: Directories,
    recovery: Recovery,
    journal: JournalWriter,
    log: structlog.BoundLogger,
) -> None:
    loop = asyncio.get_running_loop()
    settings = ensemble_config(config)
    service = Service(settings)
    if recovery.recovered.snapshot is None:
        # As ZooKeeper does on an empty directory: later starts can tell an empty tree from a lost one.
        write_snapshot(directories.data, service.snapshot())
    peer = Peer(settings, service, recovery.recovered, random.Random())
    driver = PeerDriver(peer, service, journal, config.voters, log)
    AsyncioRuntime(loop, on_failure=driver.fail)
    driver.storage = storage = Storage(
        directories,
        driver,
        loop.call_soon_threadsafe,
        preallocate_bytes=config.preallocate_bytes,
        retain_snapshots=config.retain_snapshots,
    )
    for event in (NodeStarted("peer", config.my_id, config.values), *recovery.damages):
        driver.emit(event)
    control: ControlSocket | None = None
    try:
        control = await _open_ports(config, driver, peer, service)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, driver.stop)
        gc.freeze()
        driver.start()
        await driver.finished()
    finally:
        await _close(driver, control)
        storage.close()


async def _open_ports(config: ZooConfig, driver: PeerDriver, peer: Peer, service: Service) -> ControlSocket | None:
    faults = LinkFaults(peer_names(config))
    clients = ClientPort(
        driver, frame_bytes_max=config.jute_maxbuffer, connections_per_host_max=config.max_client_cnxns
    )
    driver.clients = clients
    driver.words = Words(config, peer, service, clients.address)
    my_id = PeerId(config.my_id)
    mine = config.servers.get(config.my_id)
    if mine is not None and len(config.servers) > 1:
        host = "" if config.listen_on_all else mine.host
        text = config.ensemble_text()
        init_limit_s = config.init_limit * config.tick_time / 1000
        driver.elections = ElectionPort(my_id, config.servers, text, faults, driver)
        driver.quorum = QuorumPort(my_id, config.servers, text, faults, driver, init_limit_s)
        await driver.quorum.listen(host)
        await driver.elections.listen(host)
    await clients.listen(config.client_address, config.client_port)
    if config.control_socket is None:
        return None
    control = ControlSocket(config.control_socket, faults, lambda: report(peer))
    await control.start()
    return control


def report(peer: Peer) -> dict[str, Any]:
    """How a peer stands, as plain JSON, for the host agent."""
    return {**msgspec.to_builtins(peer.status()), "state": peer.state.name}


async def _close(driver: PeerDriver, control: ControlSocket | None) -> None:
    for port in (control, driver.clients, driver.quorum, driver.elections):
        if port is not None:
            await port.close()
    # Let the transports write what is queued and see their ends.
    await asyncio.sleep(0)
