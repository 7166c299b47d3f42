"""`zabka broker`: runs one broker in the foreground, from reading server.properties to the exit code. Does all I/O."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import os
import secrets
import signal
import socket
import ssl
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import structlog

from zabka.broker_sim.broker import Broker
from zabka.broker_sim.broker_ports import BrokerPorts
from zabka.broker_sim.configs.broker_config import KafkaConfig, parse_config
from zabka.broker_sim.configs.config_def import ConfigError
from zabka.broker_sim.configs.encoder_keys import read_encoder
from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.configs.login_keys import TokenLoginKeys
from zabka.broker_sim.configs.principal_mapping import PrincipalMapper
from zabka.broker_sim.ensemble_security import ensemble_context
from zabka.broker_sim.environment import BrokerEnvironment
from zabka.broker_sim.event_limit import TEXT_MAX
from zabka.broker_sim.failed_authentications import FailedAuthentication, FailedAuthentications
from zabka.broker_sim.kafka_port import Connection, KafkaPort, first_client
from zabka.broker_sim.listener_stores import OpenStores
from zabka.broker_sim.loggers import CONNECTIONS, LOGS, REQUESTS, SERVER
from zabka.broker_sim.logs.file_log_directory import FileLogDirectory
from zabka.broker_sim.logs.log_manager import DuplicateReplicas
from zabka.broker_sim.logs.meta_properties import InconsistentMetaProperties, stored_broker_id
from zabka.broker_sim.password_encoder import PasswordEncoder
from zabka.broker_sim.process_log import ProcessLog
from zabka.broker_sim.request_times import RequestTimes
from zabka.broker_sim.sasl.authenticator import SaslPorts
from zabka.broker_sim.sasl.sasl_connection import Authentication
from zabka.broker_sim.sasl.token_download import open_login
from zabka.broker_sim.sasl.token_verifiers import token_verifier
from zabka.broker_sim.sasl.tokens import Verify
from zabka.broker_sim.secure_kafka_port import SecureKafkaPort
from zabka.ensemble.client.asyncio_connector import AsyncioConnector
from zabka.ensemble.client.client import Client
from zabka.ensemble.client.client_tap import ClientTap
from zabka.ensemble.client.hosts import parse_hosts, split_host
from zabka.ensemble.errors import ZooKeeperError
from zabka.ensemble.properties import decode_properties
from zabka.ensemble.runtime.asyncio_runtime import AsyncioRuntime
from zabka.ensemble.runtime.client_links import ClientLinks
from zabka.ensemble.runtime.descriptors import may_open_all_files
from zabka.ensemble.runtime.dropped_connections import DroppedConnections
from zabka.ensemble.runtime.fault_ledger import FaultLedger
from zabka.ensemble.runtime.files import HOST, Files
from zabka.ensemble.runtime.links import ControlSocket, FaultTable, LinkFaults, address_key
from zabka.ensemble.runtime.node_process import LogStream, new_event_loop, node_logger
from zabka.ensemble.runtime.workers import THREADS
from zabka.ensemble.txnlog.files import make_directories
from zabka.journal.cause import Cause
from zabka.journal.events import Event, LogDamageFound, NodeStopped, PeerProtocolBroken
from zabka.journal.message_log import MessageLog, open_message_log
from zabka.journal.writer import Journal, JournalWriter
from zabka.kafka.channel import AsyncioChannel
from zabka.kafka.channel_security import ChannelSecurity, ServerSecurity
from zabka.kafka.kafka_tap import KafkaTap
from zabka.kafka.ports import Endpoint
from zabka.kafka.sasl_login import AuthenticationFailed
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.registration import BrokerIdInUse, create_persistent_paths, next_broker_id

GC_THRESHOLDS = (50_000, 20, 50)
"""Garbage collector thresholds for fewer, larger collections. Reference counting frees most of a broker's objects at
once.
"""
CONFIRM_PERIOD_MS = 1_000
"""Interval at which the broker checks with the ensemble that the controller it knows is still the controller."""
PATIENCE_S = 3
"""If the ensemble has not responded after this time, the broker logs that it waits."""

FINISH_S = 1.0
"""Maximum time for a stopping broker to wait for its small files to be synced."""

NONCE_BYTES = 24
"""Randomness of a SCRAM nonce, which is random and not predictable (RFC 5802, section 5.1)."""
REPORT_INTERVAL_MS = 5_000
"""First interval between reports of the same failure. It is longer than the interval at which brokers retry."""
LOCK_FILE = ".lock"


class CannotRun(Exception):
    """The broker cannot start or cannot continue. The message is for the user."""


class NoEnsemble(CannotRun):
    """The ensemble has not responded in time."""


def main(config_path: Path) -> int:
    """Run a broker until it is stopped. Return the exit code. Errors are one line on standard error."""
    try:
        run_broker(config_path)
    except (
        CannotRun,
        ConfigError,
        DuplicateReplicas,
        InconsistentMetaProperties,
        ZooKeeperError,
        UnicodeDecodeError,
    ) as trouble:
        sys.stderr.write(f"zabka broker: {trouble}\n")
        return 1
    except OSError as trouble:
        sys.stderr.write(f"zabka broker: {_complaint(trouble)}\n")
        return 1
    except BrokerIdInUse as in_use:
        sys.stderr.write(f"zabka broker: {in_use}, most likely another broker uses the same id\n")
        return 1
    return 0


def _complaint(failed: OSError) -> str:
    """Return a one-line message for an OS error. If the disk is full, it includes the remedy."""
    if failed.errno not in (errno.ENOSPC, errno.EDQUOT):
        return str(failed)
    where = f" for {failed.filename}" if failed.filename else ""
    return (
        f"the disk is full{where}: this broker cannot keep records or even its own state, and stops; "
        "make room and start it again"
    )


def _read_config(path: Path) -> KafkaConfig:
    """Read a broker's server.properties. Raises ConfigError with the file name in the message."""
    try:
        return parse_config(decode_properties(path.read_bytes()))
    except OSError as bad:
        raise ConfigError(f"{path} cannot be read: {bad.strerror or bad}") from None
    except ConfigError as bad:
        raise ConfigError(f"{bad} (in {path})") from None


def run_broker(config_path: Path) -> None:
    """Run a broker until SIGTERM or SIGINT, then shut it down. Raises the exceptions that `main` reports."""
    may_open_all_files()
    config = _read_config(config_path)
    with ExitStack() as held:
        lock_log_dirs(config, held)
        if config.broker_id < 0:
            config = asyncio.run(_identified(config))
        log = node_logger(config.node_name)
        for warning in config.warnings:
            log.warning(warning)
        journal_dir = Path(config.text("zabka.journal.dir") or Path(config.log_dir) / "journal")
        full = config.text("zabka.journal.level") == "full"
        journal = JournalWriter(journal_dir, config.node_name, full=full)
        held.callback(journal.close)
        messages = open_message_log(journal_dir, config.node_name, config.text("zabka.messages"))
        if messages is not None:
            held.callback(messages.close)
        gc.set_threshold(*GC_THRESHOLDS)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(serve(config, host_environment(log, journal, messages)))


def host_environment(
    log: structlog.BoundLogger, journal: Journal, messages: MessageLog | None = None
) -> BrokerEnvironment:
    """Return the environment of a broker on this machine."""
    return BrokerEnvironment(
        log=log,
        journal=journal,
        files=HOST,
        workers=THREADS,
        exit=_exit,
        made=lambda *_: None,
        started=gc.freeze,
        nonce=lambda: secrets.token_urlsafe(NONCE_BYTES),
        messages=messages,
    )


def _exit(code: int, text: str) -> NoReturn:
    stream = LogStream()
    stream.write(text)
    stream.flush()
    os._exit(code)


async def serve(config: KafkaConfig, environment: BrokerEnvironment) -> None:
    """Run a broker until it is stopped. Raises CannotRun, and the exceptions of `Broker.start`."""
    await BrokerProcess(config, environment).run()


def lock_log_dirs(config: KafkaConfig, held: ExitStack, files: Files = HOST) -> None:
    """Create the log directories if needed, and lock them until `held` is closed.

    Raises OSError, and CannotRun if another process has locked one of them.
    """
    for log_dir in config.log_dirs:
        held.enter_context(_locked(Path(log_dir), files))


@contextmanager
def _locked(log_dir: Path, files: Files) -> Iterator[None]:
    """Lock Kafka's .lock file of a log directory. Raises OSError, and CannotRun if another process has locked it."""
    make_directories(log_dir, files)
    descriptor = files.open(log_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            files.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotRun(f"Failed to acquire lock on file {LOCK_FILE} in {log_dir}: a broker uses it") from None
        yield
    finally:
        files.close(descriptor)


class BrokerProcess:
    """Runs one `Broker` in a real process: ports, connections, journal and signals.

    Must be created on the running event loop.
    """

    def __init__(self, config: KafkaConfig, environment: BrokerEnvironment) -> None:
        messages = environment.messages
        self._kafka_tap = KafkaTap(messages) if messages is not None else None
        self._client_tap = ClientTap(messages) if messages is not None else None
        self._config = config
        self._journal = environment.journal
        self._exit = environment.exit
        self._started = environment.started
        self._nonce = environment.nonce
        self._loop = asyncio.get_running_loop()
        self._flushing = False
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._runtime = AsyncioRuntime(self._loop, environment.random_seed, on_failure=self._fail)
        self._faults = LinkFaults(_peer_names(config))
        self._ensemble_context = ensemble_context(config.ensemble_tls)
        self._client_links = ClientLinks("client", first_client, self._emit)
        self._ledger = FaultLedger()
        security = ChannelSecurity(self._security_of, environment.nonce, self._authentication_failed)
        self._channel = AsyncioChannel(f"broker-{config.broker_id}", self._open_connection, self._kafka_tap, security)
        self._log_directories = [
            FileLogDirectory(Path(log_dir), environment.files, environment.workers) for log_dir in config.log_dirs
        ]
        encoder = read_encoder(config.values)
        passwords = None if encoder is None else PasswordEncoder(encoder, secrets.token_bytes)
        self._stores = OpenStores(
            passwords, self._log_problem, self._log_line, (config.inter_broker_listener, config.control_plane_listener)
        )
        self._broker = Broker(
            config,
            BrokerPorts(
                runtime=self._runtime,
                coordination=self._coordination,
                channel=self._channel,
                log_directories=self._log_directories,
                emit=self._emit,
                log_line=self._log_line,
                halt=self._halt,
                high_watermarks_reached=environment.journal.high_watermarks_reached,
                stores=self._stores,
                resolve=_address,
                count_use=environment.count_use or self._ledger.count,
            ),
        )
        self._log = ProcessLog(environment.log, self._broker.loggers)
        self._ports: list[KafkaPort] = []
        environment.made(self._broker, self._hold_faults)
        self._dropped = DroppedConnections(self._log_dropped, self._runtime.call_later, REPORT_INTERVAL_MS)
        self._unauthenticated = DroppedConnections(
            self._log_unauthenticated, self._runtime.call_later, REPORT_INTERVAL_MS
        )
        self._unauthenticated_clients = DroppedConnections(
            self._log_unauthenticated_client, self._runtime.call_later, REPORT_INTERVAL_MS
        )
        self._failed_authentications = FailedAuthentications(self._runtime, self._emit, config.broker_id)
        self._control: ControlSocket | None = None
        self._logins = {
            listener: open_login(keys, self._runtime, self._log_problem)
            for listener, keys in config.credentials.items()
            if isinstance(keys, TokenLoginKeys)
        }
        """The logins for connections to other brokers with OAUTHBEARER."""

    async def run(self) -> None:
        """Run the broker until a signal arrives.

        Raises CannotRun if the broker cannot listen on a port, ConfigError for TLS stores that cannot be used, and the
        exceptions of `Broker.start`.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signalled)
        self._loop.add_signal_handler(signal.SIGUSR1, self._hurried)
        try:
            await self._log_in()
            advertised = await self._listen()
            starting = self._loop.create_task(self._broker.start(advertised))
            try:
                await self._await_ensemble(starting)
            except CannotRun:
                starting.cancel()
                raise
            await asyncio.wait((starting, self._over), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._log.info(SERVER, "started", listeners=",".join(map(str, advertised)))
                await self._serve()
            else:
                starting.cancel()
                await asyncio.wait((starting,))
            await self._broker.stop()
        except Exception as trouble:
            self._emit(NodeStopped(str(trouble)))
            raise
        finally:
            await self._close()

    async def _log_in(self) -> None:
        """Obtain the tokens for connections to other brokers. Raises CannotRun."""
        for listener, login in self._logins.items():
            try:
                await login.start()
            except AuthenticationFailed as failed:
                raise CannotRun(f"listener {listener}: brokers cannot connect to each other: {failed}") from None

    async def _await_ensemble(self, starting: asyncio.Task[None]) -> None:
        """Wait for the ensemble's first response. Log if it is late. Give up after zookeeper.connection.timeout.ms.

        Raises NoEnsemble.
        """
        connect, limit_ms = self._config.zookeeper_connect, self._config.connection_timeout_ms
        patience_s = min(PATIENCE_S, limit_ms / 1000)
        if await self._is_connected_within(starting, patience_s):
            return
        left_s = limit_ms / 1000 - patience_s
        if left_s > 0:
            self._log.warning(SERVER, "the ensemble does not answer; waiting", connect=connect)
            if await self._is_connected_within(starting, left_s):
                return
        raise NoEnsemble(f"no connection to {connect} within zookeeper.connection.timeout.ms={limit_ms}")

    async def _is_connected_within(self, starting: asyncio.Task[None], patience_s: float) -> bool:
        """Wait up to `patience_s` until the ensemble responds. Return False on timeout.

        Also return True if the broker has started or has begun to stop.
        """
        await asyncio.wait((starting, self._over), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        is_over = starting.done() or self._over.done()
        return is_over or self._broker.coordination.session_id != 0

    async def _serve(self) -> None:
        self._started()
        confirming = self._runtime.spawn(self._confirm(), "confirm controller")
        try:
            await self._over
        finally:
            confirming.cancel()

    async def _confirm(self) -> None:
        while True:
            await self._broker.confirm_controller()
            await self._runtime.sleep(CONFIRM_PERIOD_MS)

    async def _listen(self) -> list[Listener]:
        """Open the listeners' ports and return the listeners to advertise, with port 0 replaced by the actual port."""
        config = self._config
        picked: dict[str, int] = {}
        for listener in config.listeners:
            port = self._port(listener, await self._token_verifier(listener.name))
            if isinstance(port, SecureKafkaPort):
                self._stores.opened(port)
            port.hold_links(self._client_links)
            try:
                picked[listener.name] = await port.start(listener.host, listener.port)
            except OSError as refused:
                raise CannotRun(f"cannot listen on {listener}: {refused.strerror or refused}") from None
            self._ports.append(port)
        path = config.text("zabka.control.socket")
        if path:
            self._control = ControlSocket(path, self._hold_faults, self._broker.status)
            await self._control.start()
        return [
            each._replace(host=each.host or socket.gethostname(), port=each.port or picked[each.name])
            for each in config.advertised_listeners
        ]

    async def _token_verifier(self, listener: str) -> Verify | None:
        """Return the function that verifies the tokens of a listener with OAUTHBEARER. Raises ConfigError."""
        keys = self._config.sasl.get(listener)
        if keys is None or keys.tokens is None:
            return None
        return await token_verifier(keys.tokens, listener, self._runtime, self._log_problem)

    def _port(self, listener: Listener, verify: Verify | None) -> KafkaPort:
        """Return the port of a listener, not open yet. Raises ConfigError if its TLS stores cannot be used."""
        config, tls = self._config, self._config.tls.get(listener.name)
        if tls is None:
            kind: Callable[..., KafkaPort] = KafkaPort
        else:
            mapper = None if listener.needs_sasl else PrincipalMapper(tls.mapping_rules)
            self._stores.load(tls)
            kind = partial(SecureKafkaPort, self._stores.store(listener.name), mapper, self._client_failed)
        return kind(
            listener.name,
            self._broker.serve,
            self._dropped.drop,
            self._failed,
            self._broker.connections,
            RequestTimes(self._broker.quotas.request),
            frame_bytes_max=config.number("socket.request.max.bytes"),
            idle_ms_max=config.number("connections.max.idle.ms"),
            tap=self._kafka_tap,
            connect=self._sasl_connection(listener.name, verify),
        )

    def _sasl_connection(self, listener: str, verify: Verify | None) -> Callable[[KafkaPort], Connection] | None:
        """Return the function that creates the connections of a listener with SASL, or None for another listener."""
        keys = self._config.sasl.get(listener)
        if keys is None:
            return None
        credential_of = self._broker.configs.credentials.credential
        return Authentication(
            keys,
            SaslPorts(credential_of, self._nonce, self._runtime.now, verify),
            self._config.number("connection.failed.authentication.delay.ms"),
            self._client_failed,
        ).connection

    def _hold_faults(self, table: FaultTable) -> None:
        self._ledger.move_to(table.ledger)
        self._faults.apply(table)
        self._broker.hold_faults(table.requests)
        self._client_links.apply(table)
        for port in self._ports:
            port.hold_links(self._client_links)

    async def _open_connection(
        self, factory: Callable[[], asyncio.Protocol], to: Endpoint, tls: ssl.SSLContext | None
    ) -> object:
        """Connect to a broker. First register the broker's name, so that link faults apply to the connection.

        The agent of this host may know only an earlier address of the broker.
        """
        self._faults.name_nodes({address_key(to.host, to.port): f"broker-{to.broker_id}"})
        return await self._faults.open_connection(factory, to.host, to.port, ssl=tls)

    def _security_of(self, to: Endpoint) -> ServerSecurity:
        """Return the security of connections to another broker: that of this broker's own listener of the same name."""
        name = to.listener or self._config.inter_broker_listener
        tls = self._config.tls.get(name)
        login = self._config.credentials.get(name)
        credentials = self._logins[name].current() if isinstance(login, TokenLoginKeys) else login
        if tls is None:
            return ServerSecurity(credentials=credentials)
        return ServerSecurity(self._stores.store(name).client_context, tls.checks_names, credentials)

    def _coordination(self) -> Client:
        return Client(
            self._config.zookeeper_connect,
            AsyncioConnector(self._faults, ssl_context=self._ensemble_context, tap=self._client_tap),
            self._runtime,
            session_timeout_ms=self._config.session_timeout_ms,
            name=self._config.node_name,
        )

    async def _close(self) -> None:
        for port in self._ports:
            await port.close()
        if self._control is not None:
            await self._control.close()
        self._channel.close()
        for directory in self._log_directories:
            directory.finish(FINISH_S)
        await self._runtime.cancel_all()
        self._journal.flush()
        # Let the event loop run once, so that transports write their buffers and notice that they are closed.
        await asyncio.sleep(0)

    # ---- events and errors -------------------------------------------------------------------------------------

    def _emit(self, event: Event) -> Cause:
        cause = self._journal.write(event)
        if isinstance(event, LogDamageFound):
            about = {"file": event.file, "reason": event.reason, "action": event.action}
            self._log.warning(LOGS, "found damage on the disk", **about)
        self._log.event(event)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)
        return cause

    def _flush(self) -> None:
        self._flushing = False
        self._journal.flush()

    def _hurried(self) -> None:
        """Stop without moving leaderships to other brokers, because the whole cluster is being stopped."""
        self._broker.leaving.hurried = True
        if not self._over.done():
            self._over.set_result(None)

    def _signalled(self) -> None:
        if self._over.done():
            # This is the second signal, so stop at once, like a crash.
            self._emit(NodeStopped("asked twice to stop"))
            self._journal.flush()
            self._exit(130, "")
        self._over.set_result(None)

    def _log_line(self, line: str) -> None:
        self._log.info(SERVER, line)

    def _log_problem(self, problem: str) -> None:
        self._log.warning(SERVER, problem)

    def _log_dropped(self, remote: str, reason: str, count: int) -> None:
        self._log.warning(CONNECTIONS, "dropped a connection", remote=remote, reason=reason, count=count)
        self._emit(PeerProtocolBroken(remote, reason, count))

    def _authentication_failed(self, to: Endpoint, reason: str) -> None:
        # The reason is the other side's text, of any length. As a field of the log it is quoted.
        self._unauthenticated.drop(f"{to.broker_id} ({to.host}:{to.port})", reason[:TEXT_MAX])

    def _log_unauthenticated(self, remote: str, reason: str, count: int) -> None:
        self._log.error(CONNECTIONS, f"Connection to node {remote} failed authentication", reason=reason, count=count)
        self._emit(PeerProtocolBroken(remote, f"authentication failed: {reason}", count))

    def _client_failed(self, failed: FailedAuthentication) -> None:
        self._unauthenticated_clients.drop(failed.remote, str(failed))
        self._failed_authentications.note(failed)

    def _log_unauthenticated_client(self, remote: str, reason: str, count: int) -> None:
        self._log.warning(CONNECTIONS, "failed authentication", remote=remote, reason=reason, count=count)

    def _failed(self, request: str, failure: Exception) -> None:
        if isinstance(failure, AssertionError):
            self._fail(request, failure)
        else:
            self._log.error(REQUESTS, "request failed", request=request, failure=f"{type(failure).__name__}: {failure}")

    def _halt(self, reason: str) -> None:
        """End the process immediately, as Kafka does, because no log directory is left."""
        self._journal.flush()
        self._exit(1, f"zabka broker: {reason}\n")

    def _fail(self, name: str, failure: BaseException) -> None:
        """End the process after a bug in the broker. The last journal entry contains the reason."""
        self._emit(NodeStopped(f"{name}: {type(failure).__name__}: {failure}"))
        self._journal.flush()
        self._exit(70, "".join(traceback.format_exception(failure)) + f"zabka broker: {name} failed\n")


def _address(host: str) -> str | None:
    """Return the IP address of a host that a connection limit names, or None if it cannot be resolved."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return str(found[0][4][0])


def _peer_names(config: KafkaConfig) -> dict[str, str]:
    """Return names for the addresses in zookeeper.connect, made from their positions in the list.

    These names are used until the agent sends the real ones. Raises CannotRun if an address is invalid.
    """
    servers = parse_hosts(config.zookeeper_connect).servers
    try:
        addresses = [address_key(*split_host(server)) for server in servers]
    except ValueError as bad:
        raise CannotRun(f"configuration zookeeper.connect: {bad}") from None
    return {address: f"peer-{number}" for number, address in enumerate(addresses, 1)}


async def _identified(config: KafkaConfig) -> KafkaConfig:
    """Return the configuration with a broker id, generated if necessary (broker.id.generation.enable).

    As in Kafka, a broker stores its id in the log directory; only a new broker requests the next id from the ensemble.
    Raises ZooKeeperError.
    """
    broker_id = stored_broker_id(FileLogDirectory(Path(config.log_dir)))
    return config.identified(await _next_id(config) if broker_id is None else broker_id)


async def _next_id(config: KafkaConfig) -> int:
    runtime = AsyncioRuntime(asyncio.get_running_loop())
    client = Client(
        config.zookeeper_connect,
        AsyncioConnector(ssl_context=ensemble_context(config.ensemble_tls)),
        runtime,
        session_timeout_ms=config.session_timeout_ms,
        name="a new broker",
    )
    try:
        await client.start()
        zk = Zk(client, runtime)
        await create_persistent_paths(zk)
        return await next_broker_id(zk, config.number("reserved.broker.max.id"))
    finally:
        await client.close()
        await runtime.cancel_all()
