"""One broker: its registration, its ZooKeeper session, its controller, its replicas, and its request handlers.

It does no I/O itself. It receives its configuration, and does all I/O through `BrokerPorts`. In a real process,
`zabka.broker_sim.broker_process` listens for connections; the simulated world calls `handle` with messages.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from zabka.broker_sim.admin import ZkAdminManager
from zabka.broker_sim.authorizer.acl_authorizer import authorizer_of
from zabka.broker_sim.authorizer.request_guard import RequestGuards
from zabka.broker_sim.auto_topic_creation import AutoTopicCreation
from zabka.broker_sim.broker_ports import BrokerPorts
from zabka.broker_sim.broker_status import BrokerStatus, authorizer_row, describe, listener_rows
from zabka.broker_sim.config_changes import ConfigChanges
from zabka.broker_sim.configs.broker_config import KafkaConfig
from zabka.broker_sim.configs.config_admin import ConfigAdmin
from zabka.broker_sim.configs.config_describe import ConfigDescriber
from zabka.broker_sim.configs.dynamic_tls import DynamicTls
from zabka.broker_sim.configs.entity_configs import EntityConfigs
from zabka.broker_sim.configs.entity_znodes import EntityZnodes
from zabka.broker_sim.configs.listeners import Listener
from zabka.broker_sim.configs.replica_config import replica_config
from zabka.broker_sim.configs.scram_credentials import ScramCredentials
from zabka.broker_sim.controlled_shutdown import ControlledShutdown
from zabka.broker_sim.controller_gate import ControllerGateway
from zabka.broker_sim.groups.config import CONSUMER_OFFSETS, group_config
from zabka.broker_sim.groups.coordinator import GroupCoordinator
from zabka.broker_sim.handlers.absent import AbsentHandlers
from zabka.broker_sim.handlers.acls import AclHandlers
from zabka.broker_sim.handlers.admin import AdminHandlers
from zabka.broker_sim.handlers.control import ControlHandlers
from zabka.broker_sim.handlers.data import DataHandlers
from zabka.broker_sim.handlers.delegation_tokens import DelegationTokenHandlers
from zabka.broker_sim.handlers.groups import GroupHandlers
from zabka.broker_sim.handlers.logs import LogHandlers
from zabka.broker_sim.handlers.metadata import MetadataHandlers
from zabka.broker_sim.handlers.offsets import OffsetHandlers
from zabka.broker_sim.handlers.transactions import TransactionHandlers
from zabka.broker_sim.handlers.txn_markers import TxnMarkerHandlers
from zabka.broker_sim.handlers.users import UserHandlers
from zabka.broker_sim.loggers import LoggerLevels
from zabka.broker_sim.metadata_cache import MetadataCache
from zabka.broker_sim.producer_ids import ProducerIds
from zabka.broker_sim.quotas.client_quotas import ClientQuotas
from zabka.broker_sim.quotas.client_throttling import client_throttles
from zabka.broker_sim.quotas.connection_limits import connection_limits, connection_quotas
from zabka.broker_sim.registration_watch import RegistrationWatch
from zabka.broker_sim.replication.environment import BrokerIdentity, ReplicaPorts, ReplicaStorage
from zabka.broker_sim.replication.replica_manager import ReplicaManager
from zabka.broker_sim.replication.zookeeper_isr import isr_writer
from zabka.broker_sim.request_context import Handler, RequestContext, RequestRefused
from zabka.broker_sim.request_faults import RequestFaults
from zabka.broker_sim.transactions.config import transaction_config
from zabka.broker_sim.transactions.coordinator import TransactionCoordinator
from zabka.controller.config import ControllerConfig
from zabka.controller.controller import KafkaController
from zabka.controller.historical import Historical
from zabka.controller.topic_configs import UNCLEAN
from zabka.ensemble.client.service import SessionState
from zabka.ensemble.errors import SessionExpired, ZooKeeperError
from zabka.ensemble.ports import Task
from zabka.ensemble.request_fault import HeldRequestFault
from zabka.ensemble.request_fault_uses import Counts
from zabka.journal.events import BrokerSessionChanged, NodeStarted, NodeStopped, TopicPartition
from zabka.kafka.ports import Endpoint, KafkaMessage
from zabka.kafka.topic_names import TRANSACTION_STATE
from zabka.kafka.wire.kafka_schema import ApiKey, api_key_of
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import FencedWriter, Zk
from zabka.kafka.zk.registration import BrokerIdInUse, cluster_id, create_persistent_paths, read_controller
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo

REGISTRATION_POLL_MS = 500

_EMITTED_STATES = (SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED)


class Broker:
    """A Kafka broker.

    Call `await start()`, then `handle()` for each request, then `await stop()`. To kill a broker, drop the object.
    """

    def __init__(self, config: KafkaConfig, ports: BrokerPorts) -> None:
        runtime, emit = ports.runtime, ports.emit
        self.config = config
        self.cluster_id = ""
        self.state = "created"
        self.metadata = MetadataCache(runtime, config.inter_broker_listener, config.control_plane_listener)
        self.coordination = ports.coordination()
        self._runtime = runtime
        self._halt = ports.halt
        self._emit = emit
        self._log_line = ports.log_line
        self._resolve = ports.resolve
        self._count_use = ports.count_use
        self._advertised: tuple[Listener, ...] = config.advertised_listeners
        self._tasks: list[Task] = []
        self._renewing = False
        self._logs_open = False
        self._log_intact = False
        """Whether the registration reports that the log lost no records since the previous registration."""
        self._controller_confirmed_ms = runtime.now().mono_ms
        self._zk = Zk(self.coordination, runtime, config.number("zookeeper.max.in.flight.requests"))
        self._controller_config = controller_config(config)
        self.authorizer = authorizer_of(config, self._zk, runtime, emit, ports.log_line)
        self.loggers = LoggerLevels()
        self.quotas = client_throttles(config, runtime)
        self.configs = EntityConfigs(self._zk, runtime, config, emit, self._config_changed)
        self.connections = connection_quotas(config, runtime)
        self.connections.configure(connection_limits(config, self.configs, ports.resolve))
        self.controller = KafkaController(
            config=self._controller_config,
            broker_id=config.broker_id,
            coordination=self.coordination,
            channel=ports.channel,
            runtime=runtime,
            emit=emit,
            broker_info=self._broker_info,
        )
        self.replicas = self._make_replicas(ports)
        self._tls = DynamicTls(config, ports.stores, ports.log_line)
        self._config_changes = ConfigChanges(
            config,
            self.configs,
            controller=self.controller,
            controller_config=self._controller_config,
            replicas=self.replicas,
            quotas=self.quotas,
            connections=self.connections,
            resolve=ports.resolve,
            tls=self._tls,
        )
        self._own_registration = RegistrationWatch(
            self._zk,
            runtime,
            self._broker_info,
            lambda: self.controller.is_registered,
            self.controller.session_renewed,
            ports.log_line,
        )
        self.leaving = ControlledShutdown(
            config, ports, self.coordination, self.metadata, lambda: self.controller.broker_epoch
        )
        self.groups = GroupCoordinator(group_config(config), self.replicas, runtime, emit)
        self.transactions = self._make_transactions(ports)
        self._admin = ZkAdminManager(self._zk, runtime, config, self.metadata, ports.emit, self._own_writer)
        self._topic_creation = self._make_topic_creation(ports)
        self._data = DataHandlers(config, self.metadata, self.replicas, runtime, self.quotas, self.authorizer)
        self._handlers = self._guarded(self._routes())
        self._faults: RequestFaults | None = None
        """The request faults. None if there are none, so that requests are processed without a check for faults."""

    def _make_topic_creation(self, ports: BrokerPorts) -> AutoTopicCreation:
        anywhere = ZkAdminManager(self._zk, ports.runtime, self.config, self.metadata, ports.emit, self._present_writer)
        return AutoTopicCreation(
            config=self.config,
            group_config=self.groups.config,
            transaction_config=self.transactions.config,
            runtime=ports.runtime,
            metadata=self.metadata,
            admin=anywhere,
            mutations=self.quotas.mutations,
        )

    def _make_transactions(self, ports: BrokerPorts) -> TransactionCoordinator:
        return TransactionCoordinator(
            transaction_config(self.config),
            replicas=self.replicas,
            metadata=self.metadata,
            channel=ports.channel,
            producer_ids=ProducerIds(self._zk, ports.runtime, self.config.broker_id),
            runtime=ports.runtime,
            emit=ports.emit,
        )

    def _make_replicas(self, ports: BrokerPorts) -> ReplicaManager:
        return ReplicaManager(
            replica_config(self.config),
            identity=BrokerIdentity(
                broker_id=self.config.broker_id,
                broker_epoch=lambda: self.controller.broker_epoch,
                controller_epoch_seen=lambda: self.controller.controller_epoch,
            ),
            ports=ReplicaPorts(
                runtime=ports.runtime,
                channel=ports.channel,
                controller=ControllerGateway(ports.runtime, self.metadata, ports.channel),
                metadata=self.metadata,
                emit=ports.emit,
                transaction_coordinator=self._transaction_coordinator,
            ),
            storage=ReplicaStorage(
                log_directories=ports.log_directories,
                log_dir_failed=self._log_dir_failed,
                high_watermarks_reached=ports.high_watermarks_reached,
            ),
            topic_configs=self.configs.topic_overrides,
            isr_writer=isr_writer(self.config, self._zk, ports.runtime, ports.emit),
        )

    def _transaction_coordinator(self, transactional_id: str) -> Endpoint | None:
        """Return the broker that coordinates a transactional id, if known.

        This is the leader of the id's partition of `__transaction_state`.
        """
        number = self.transactions.store.partition_for(transactional_id)
        partition = self.metadata.partition(TopicPartition(TRANSACTION_STATE, number))
        return None if partition is None else self.metadata.endpoint(partition.leader)

    def _routes(self) -> dict[ApiKey, Handler]:
        config_admin = ConfigAdmin(
            self._zk,
            self.config,
            self.configs,
            self.metadata,
            self.loggers,
            self._tls,
            log_line=self._log_line,
        )
        entity_znodes = EntityZnodes(self._zk)
        quotas = ClientQuotas(entity_znodes, self._resolve)
        describer = ConfigDescriber(self._zk, self.config, self.metadata, self.configs, self.loggers)
        return {
            **self._data.table(),
            **MetadataHandlers(self.metadata, self._topic_creation.create, lambda: self.cluster_id).table(),
            **AdminHandlers(
                admin=self._admin,
                describer=describer,
                configs=config_admin,
                metadata=self.metadata,
                is_controller=lambda: self.controller.is_active,
                mutations=self.quotas.mutations,
                runtime=self._runtime,
            ).table(),
            **ControlHandlers(
                replicas=self.replicas,
                metadata=self.metadata,
                configs=self.configs,
                controller=self.controller,
                groups=self.groups,
                transactions=self.transactions,
                on_controller_request=self._controller_request_accepted,
            ).table(),
            **UserHandlers(quotas, ScramCredentials(entity_znodes), lambda: self.controller.is_active).table(),
            **LogHandlers(self.config.log_dirs, self.replicas, self.metadata).table(),
            **AclHandlers(self.authorizer).table(),
            **DelegationTokenHandlers(self.config.listeners, self.authorizer).table(),
            **AbsentHandlers(lambda: self.controller.is_active).table(),
            **TransactionHandlers(self.transactions, self.groups, self.metadata).table(),
            **TxnMarkerHandlers(self.replicas, self.groups, self.config.number("request.timeout.ms")).table(),
            **GroupHandlers(self.groups).table(),
            **OffsetHandlers(
                self.groups,
                self.transactions,
                self.metadata,
                self._zk,
                self._runtime,
                self._topic_creation.create,
            ).table(),
        }

    def _guarded(self, handlers: dict[ApiKey, Handler]) -> dict[ApiKey, Handler]:
        """Return handlers that check permissions, if this broker has an authorizer."""
        if self.authorizer is None:
            return handlers
        creates_topics = self.config.flag("auto.create.topics.enable")
        guards = RequestGuards(self.authorizer, self.metadata, lambda: self.controller.is_active, creates_topics)
        return guards.wrap(handlers)

    # ---- requests ---------------------------------------------------------------------------------------------

    def handle(
        self, message: KafkaMessage, client_id: str = "", listener: str = "", client_host: str = ""
    ) -> Coroutine[Any, Any, KafkaMessage | None]:
        """Process a request and return its response, or None if the client expects none.

        Raises RequestRefused if the connection must be closed instead, and Unanswered if a request fault drops the
        response. The caller must process the requests of one connection one after another, as Kafka does.
        """
        return self.serve(message, RequestContext(client_id, listener, client_host))

    async def serve(self, message: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
        """Process a request as `handle` does. Afterwards, `context` contains the time for which to mute the client."""
        # While the broker id is still registered by this broker's previous process, control requests are for that
        # process. They must not make this process leader or follower. Kafka's brokers, too, process no requests before
        # they are registered.
        if self.state not in ("running", "shutting_down", "registering") or self.controller.broker_epoch < 0:
            raise RequestRefused(f"broker {self.config.broker_id} is {self.state}")
        api = ApiKey(api_key_of(message))
        handler = self._handlers[api]
        if self._faults is None or api not in self._faults.apis:
            response = await handler(message, context)
        else:
            response = await self._faults.serve(handler, message, context)
        if self.quotas.request.is_used and response is not None:
            return self.quotas.hold_to_request_time(response, context)
        return response

    def hold_faults(self, rules: Sequence[HeldRequestFault]) -> None:
        """Replace the active request faults by these."""
        if rules and self._faults is None:
            self._faults = RequestFaults(self._runtime, self.metadata, self._emit, self._data.fetched, self._count_use)
        if self._faults is not None:
            self._faults.hold(rules)
        if not rules:
            self._faults = None

    def fault_counts(self) -> Counts:
        """Return, by fault id, how many requests matched each request fault and how often it was injected."""
        return {} if self._faults is None else self._faults.counts()

    def _controller_request_accepted(self, controller_id: int, controller_epoch: int) -> None:
        self._controller_confirmed_ms = self._runtime.now().mono_ms
        self.controller.controller_seen(controller_id, controller_epoch)

    # ---- lifecycle ------------------------------------------------------------------------------------------------

    async def start(self, advertised: Sequence[Listener] | None = None) -> None:
        """Join the cluster. Return once this broker is registered and takes part in controller elections.

        `advertised` replaces the configured listeners if the ports were not known before. Raises BrokerIdInUse if
        another live broker has this id, InconsistentMetaProperties, and ZooKeeperError.
        """
        if advertised is not None:
            self._advertised = tuple(advertised)
        self.state = "starting"
        self._emit(NodeStarted("broker", self.config.broker_id, self.config.effective()))
        self.coordination.add_listener(self._session_changed)
        await self.coordination.start()
        while True:
            try:
                await self._join()
                break
            except SessionExpired:
                # The controller has not started yet, so only the session has to be renewed.
                await self.coordination.renew()
        self._tasks.append(self._runtime.spawn(self.configs.follow(), f"configs of broker {self.config.broker_id}"))
        if self.authorizer is not None:
            self._tasks.append(self._runtime.spawn(self.authorizer.follow(), f"ACLs of broker {self.config.broker_id}"))
        self._tasks.append(self._runtime.spawn(self._own_registration.follow(), "own registration"))
        self.state = "running"
        if self.coordination.state is SessionState.EXPIRED:
            self._renew_later()

    async def _join(self) -> None:
        await create_persistent_paths(self._zk)
        self.cluster_id = await cluster_id(self._zk, self._runtime.random)
        self.replicas.claim_log_directories(self.cluster_id)
        await self.configs.load()
        self._tls.is_loaded = True
        if self.authorizer is not None:
            await self.authorizer.start()
        if not self._logs_open:
            self._logs_open = True
            self.replicas.start()
            self._log_intact = self._intact_since >= 0
        self.groups.start(await self._partition_count(CONSUMER_OFFSETS))
        self.transactions.start(await self._partition_count(TRANSACTION_STATE))
        self.state = "registering"
        await self._register()

    async def _partition_count(self, internal_topic: str) -> int | None:
        """Return the number of partitions of an internal topic, or None if it does not exist yet."""
        outcome = await self._zk.attempt(lambda: self.coordination.get(znodes.topic_path(internal_topic)))
        topic = None if outcome.value is None else znodes.decode_topic(outcome.value[0])
        return len(topic.partitions) if topic is not None and topic.partitions else None

    async def _register(self) -> None:
        """Start the controller, which registers the broker.

        If the broker id is already registered, wait until the session of that registration expires.
        """
        wait_ms = 2 * self.config.session_timeout_ms + REGISTRATION_POLL_MS
        deadline_ms = self._runtime.now().mono_ms + wait_ms
        logged = False
        while True:
            try:
                await self.controller.startup()
                return
            except BrokerIdInUse as in_use:
                if self._runtime.now().mono_ms >= deadline_ms:
                    raise
                if not logged:
                    logged = True
                    self._log_line(
                        f"broker id {self.config.broker_id} is still registered: {in_use}; "
                        f"waiting up to {wait_ms} ms for that session to expire"
                    )
            await self._runtime.sleep(REGISTRATION_POLL_MS)

    async def stop(self) -> None:
        """Shut down: move leaderships to other brokers, resign as controller, close the logs, end the session."""
        if self.state in ("shutting_down", "stopped"):
            return
        was_running = self.state == "running"
        self.state = "shutting_down"
        if was_running and self.config.flag("controlled.shutdown.enable"):
            await self.leaving.leave()
        await self.controller.shutdown()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self.groups.close()
        self.transactions.close()
        # The controller may send requests until the session ends. Reject them: the logs are closed, and LeaderAndIsr
        # would create the replicas again.
        self.state = "stopped"
        if self._logs_open:
            self.replicas.shutdown(self._intact_since)
        await self.coordination.close()
        self._emit(NodeStopped("shutdown"))

    @property
    def _intact_since(self) -> int:
        """Broker epoch of a registration since which this broker has lost no records, or -1 if there is none.

        After the first LeaderAndIsr request, this is the registration of the running process, because the controller
        that sent the request has already processed this broker's restart.
        """
        return self.controller.broker_epoch if self.replicas.partitions else self.replicas.broker_epoch_left

    async def _own_writer(self) -> FencedWriter | None:
        term = self.controller.term
        return None if term is None else term.writer

    async def _present_writer(self) -> FencedWriter | None:
        """Return a writer fenced by the current controller epoch, even if another broker is controller.

        Kafka's AutoTopicCreationManager also writes on a broker that is not controller.
        """
        own = await self._own_writer()
        if own is not None:
            return own
        seen = await read_controller(self._zk)
        return FencedWriter(self._zk, self.config.broker_id, seen.epoch, seen.epoch_zk_version, self._emit)

    # ---- the session ------------------------------------------------------------------------------------------

    def _session_changed(self, state: SessionState) -> None:
        if state in _EMITTED_STATES:
            self._emit(BrokerSessionChanged(self.config.broker_id, state.value, self.coordination.session_id))
        if state is SessionState.EXPIRED and self.state == "running":
            self._renew_later()

    def _renew_later(self) -> None:
        if not self._renewing:
            self._renewing = True
            self._runtime.spawn(self._renew_session(), f"renew session of broker {self.config.broker_id}")

    async def _renew_session(self) -> None:
        """Handle an expired session in KafkaZkClient's order.

        Resign as controller, open a new session, register the broker again, and take part in the controller election
        again.
        """
        try:
            await self.controller.session_expired()
            self._log_intact = self._intact_since >= 0
            while self.state == "running":
                with suppress(SessionExpired):
                    await self.coordination.renew()
                    break
                if self.coordination.state is SessionState.CLOSED:
                    return
        finally:
            self._renewing = False
        if self.state != "running":
            return
        self.configs.reload_later()
        if self.authorizer is not None:
            self.authorizer.reload_later()
        self.controller.session_renewed()

    def _broker_info(self) -> BrokerInfo:
        endpoints = tuple(BrokerEndpoint(*each) for each in self._advertised)
        intact = self._log_intact and Historical.LAST_REPLICA_STANDING not in self.config.historical
        return BrokerInfo(self.config.broker_id, endpoints, self.config.rack, log_intact=intact)

    async def confirm_controller(self) -> None:
        """Check with the ensemble whether the believed controller is still the controller.

        If so, update the time of the last confirmation.
        """
        with suppress(ZooKeeperError):
            data, _ = await self.coordination.get(znodes.CONTROLLER)
            if znodes.decode_controller(data) == self.controller.active_controller_id:
                self._controller_confirmed_ms = self._runtime.now().mono_ms

    def _config_changed(self, entity: str) -> None:
        self._config_changes.take_over(entity)

    # ---- log directories --------------------------------------------------------------------------------------

    def _log_dir_failed(self) -> None:
        self.groups.roles_changed()
        self.transactions.roles_changed()
        if self.replicas.has_storage:
            self._log_line("a log directory has failed and is offline")
            self._runtime.spawn(self._notify_failed_log_dir(), f"log_dir_event of broker {self.config.broker_id}")
        else:
            self.state = "stopped"
            reason = self.replicas.storage_complaint
            self._emit(NodeStopped(reason))
            self._halt(reason)

    async def _notify_failed_log_dir(self) -> None:
        """Notify the controller of a failed log directory by creating a notification znode (KIP-112).

        The controller then requests the state of every replica on this broker.
        """
        path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
        data = znodes.encode_log_dir_event(self.config.broker_id)
        while self.state in ("registering", "running"):
            with suppress(SessionExpired):
                await self._zk.attempt(lambda: self.coordination.create(path, data, sequential=True))
                return
            await self._runtime.sleep(REGISTRATION_POLL_MS)

    # ---- reports ----------------------------------------------------------------------------------------------

    def status(self) -> BrokerStatus:
        """Return this broker's status as plain JSON."""
        return describe(
            broker_id=self.config.broker_id,
            state=self.state,
            coordination=self.coordination,
            controller=self.controller,
            confirmed_age_ms=self._runtime.now().mono_ms - self._controller_confirmed_ms,
            replicas=self.replicas,
            metadata=self.metadata,
            fault_counts=self.fault_counts(),
            listeners=listener_rows(self.config, self._advertised, self._tls.stores.certificates()),
            authorizer=authorizer_row(self.config),
        )


def controller_config(config: KafkaConfig) -> ControllerConfig:
    """Return those settings of a broker's configuration that the controller uses."""
    return ControllerConfig(
        unclean_leader_election_enable=config.flag(UNCLEAN),
        min_insync_replicas=config.min_insync_replicas,
        session_timeout_ms=config.session_timeout_ms,
        auto_leader_rebalance_enable=config.flag("auto.leader.rebalance.enable"),
        leader_imbalance_check_interval_seconds=config.number("leader.imbalance.check.interval.seconds"),
        leader_imbalance_per_broker_percentage=config.number("leader.imbalance.per.broker.percentage"),
        delete_topic_enable=config.flag("delete.topic.enable"),
        zookeeper_max_in_flight_requests=config.number("zookeeper.max.in.flight.requests"),
        controller_socket_timeout_ms=config.number("controller.socket.timeout.ms"),
        inter_broker_listener_name=config.inter_broker_listener,
        control_plane_listener_name=config.control_plane_listener,
        historical=config.historical,
    )
