"""One broker: its registration, its session with the ensemble, its controller, its replicas, and what it serves.

Pure: it is handed its configuration, a runtime, a way to make a coordination service, a channel to the other brokers, a
log directory, and where its events go.  The shell around it listens (`broker_sim.broker_process`), or the simulated
world calls `handle` with messages.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from kio.schema.errors import ErrorCode

from broker_sim.admin import NewTopic, ZkAdminManager
from broker_sim.broker_status import BrokerStatus, describe
from broker_sim.configs.broker_config import KafkaConfig, Listener
from broker_sim.configs.config_admin import ConfigAdmin
from broker_sim.configs.config_describe import ConfigDescriber
from broker_sim.configs.connection_limits import Resolve, connection_limits
from broker_sim.configs.entity_configs import EntityConfigs
from broker_sim.configs.entity_znodes import EntityZnodes
from broker_sim.configs.replica_config import ReplicaConfig
from broker_sim.configs.scram_credentials import ScramCredentials
from broker_sim.controller_gate import ControllerGateway
from broker_sim.groups.config import CONSUMER_OFFSETS, group_config
from broker_sim.groups.coordinator import GroupCoordinator
from broker_sim.handlers.absent import AbsentHandlers
from broker_sim.handlers.admin import AdminHandlers
from broker_sim.handlers.broker_requests import Handler, RequestContext, RequestRefused
from broker_sim.handlers.control import ControlHandlers
from broker_sim.handlers.data import DataHandlers
from broker_sim.handlers.groups import GroupHandlers
from broker_sim.handlers.logs import LogHandlers
from broker_sim.handlers.metadata import MetadataHandlers
from broker_sim.handlers.offsets import OffsetHandlers
from broker_sim.handlers.users import UserHandlers
from broker_sim.metadata_cache import MetadataCache
from broker_sim.ports import LogDirectory
from broker_sim.producer_ids import ProducerIds
from broker_sim.quotas.client_quotas import ClientQuotas
from broker_sim.quotas.client_throttling import ClientThrottles, number
from broker_sim.quotas.connection_quotas import ConnectionQuotas
from broker_sim.registration_watch import RegistrationWatch
from broker_sim.replication.replica_manager import ReplicaManager
from broker_sim.replication.zookeeper_isr import ZooKeeperIsrWriter
from controller.config import ControllerConfig
from controller.controller import KafkaController
from controller.historical import Historical
from controller.topic_configs import UNCLEAN
from ensemble.client.service import CoordinationService, SessionState
from ensemble.errors import SessionExpired, ZooKeeperError
from ensemble.ports import Future, Runtime, Task
from journal.events import BrokerSessionChanged, NodeStarted, NodeStopped
from kafka_protocol.ports import BrokerChannel, ChannelBroken, Emit, KafkaMessage
from kafka_protocol.wire.kafka_schema import ApiKey, api_key_of, request
from kafka_protocol.zk import znodes
from kafka_protocol.zk.coordination import Zk
from kafka_protocol.zk.registration import BrokerIdInUse, cluster_id, create_persistent_paths
from kafka_protocol.zk.znodes import DEFAULT_ENTITY, BrokerEndpoint, BrokerInfo

PLAINTEXT = "PLAINTEXT"
"""The listener by which brokers reach each other where none is named."""
CONNECTION_RATE = "connection_creation_rate"
REGISTRATION_POLL_MS = 500
CONTROLLED_SHUTDOWN_VERSION = 3
LEAVING_POLL_MS = 500
CREATING_MAX = 100
"""Topics being made at a time because clients asked for them."""
CONTROLLED_SHUTDOWN_ATTEMPT_MS_MAX = 3_000
"""How long one attempt waits for the controller; there may be none."""

_EMITTED_STATES = (SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.EXPIRED)


def _say_nothing(_: str) -> None:
    return


def controller_config(config: KafkaConfig) -> ControllerConfig:
    """What the controller reads of a broker's configuration."""
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
        inter_broker_listener_name=config.text("inter.broker.listener.name").upper(),
        historical=config.historical,
    )


def replica_config(config: KafkaConfig) -> ReplicaConfig:
    """What the replica manager reads of a broker's configuration."""
    return ReplicaConfig(
        replica_lag_time_max_ms=config.replica_lag_time_max_ms,
        min_insync_replicas=config.min_insync_replicas,
        message_max_bytes=config.number("message.max.bytes"),
        log_segment_bytes=config.number("log.segment.bytes"),
        log_index_interval_bytes=config.number("log.index.interval.bytes"),
        replica_fetch_wait_max_ms=config.number("replica.fetch.wait.max.ms"),
        replica_fetch_min_bytes=config.number("replica.fetch.min.bytes"),
        replica_fetch_max_bytes=config.number("replica.fetch.max.bytes"),
        replica_fetch_response_max_bytes=config.number("replica.fetch.response.max.bytes"),
        replica_fetch_backoff_ms=config.number("replica.fetch.backoff.ms"),
        replica_socket_timeout_ms=config.number("replica.socket.timeout.ms"),
        replica_high_watermark_checkpoint_interval_ms=config.number("replica.high.watermark.checkpoint.interval.ms"),
        replica_selector_class=config.text("replica.selector.class"),
        log_roll_ms=config.number("log.roll.ms"),
        log_retention_ms=config.number("log.retention.ms"),
        log_retention_bytes=config.number("log.retention.bytes"),
        log_retention_check_interval_ms=config.number("log.retention.check.interval.ms"),
        log_flush_start_offset_checkpoint_interval_ms=config.number("log.flush.start.offset.checkpoint.interval.ms"),
        log_message_timestamp_type=config.text("log.message.timestamp.type"),
        log_message_timestamp_before_max_ms=config.number("log.message.timestamp.before.max.ms"),
        log_message_timestamp_after_max_ms=config.number("log.message.timestamp.after.max.ms"),
        log_message_timestamp_difference_max_ms=config.number("log.message.timestamp.difference.max.ms"),
        log_message_downconversion_enable=config.flag("log.message.downconversion.enable"),
        compression_type=config.text("compression.type"),
        compression_gzip_level=config.number("compression.gzip.level"),
        compression_lz4_level=config.number("compression.lz4.level"),
        compression_zstd_level=config.number("compression.zstd.level"),
        log_cleanup_policy=config.text("log.cleanup.policy"),
        log_cleaner_enable=config.flag("log.cleaner.enable"),
        log_cleaner_backoff_ms=config.number("log.cleaner.backoff.ms"),
        log_cleaner_min_cleanable_ratio=config.fraction("log.cleaner.min.cleanable.ratio"),
        log_cleaner_min_compaction_lag_ms=config.number("log.cleaner.min.compaction.lag.ms"),
        log_cleaner_max_compaction_lag_ms=config.number("log.cleaner.max.compaction.lag.ms"),
        log_cleaner_delete_retention_ms=config.number("log.cleaner.delete.retention.ms"),
        producer_id_expiration_ms=config.number("producer.id.expiration.ms"),
        producer_id_expiration_check_interval_ms=config.number("producer.id.expiration.check.interval.ms"),
        replication_quota_window_num=config.number("replication.quota.window.num"),
        replication_quota_window_size_seconds=config.number("replication.quota.window.size.seconds"),
        alter_log_dirs_replication_quota_window_num=config.number("alter.log.dirs.replication.quota.window.num"),
        alter_log_dirs_replication_quota_window_size_seconds=config.number(
            "alter.log.dirs.replication.quota.window.size.seconds"
        ),
        historical=config.historical,
    )


def client_throttles(config: KafkaConfig, runtime: Runtime) -> ClientThrottles:
    """A broker's quotas of clients, none of them set yet."""
    return ClientThrottles(
        runtime,
        config.number("quota.window.num"),
        config.number("quota.window.size.seconds"),
        config.number("controller.quota.window.num"),
        config.number("controller.quota.window.size.seconds"),
    )


def connection_quotas(config: KafkaConfig, runtime: Runtime) -> ConnectionQuotas:
    """A broker's counts of connections."""
    windows, seconds = config.number("quota.window.num"), config.number("quota.window.size.seconds")
    protected = config.text("inter.broker.listener.name").upper() or PLAINTEXT
    return ConnectionQuotas(runtime, windows, seconds, protected)


def isr_writer(config: KafkaConfig, zk: Zk, runtime: Runtime, emit: Emit) -> ZooKeeperIsrWriter | None:
    """Who writes this broker's ISR changes into ZooKeeper; None where the controller does (AlterPartition)."""
    if Historical.DIRECT_ZOOKEEPER_ISR in config.historical:
        return ZooKeeperIsrWriter(config.broker_id, zk, runtime, emit)
    return None


class Broker:
    """A Kafka broker.

    `await start()`, then `handle()` for each request, then `await stop()`.  A broker that is killed is simply dropped.
    `say` gets the few lines a person at the console should see.
    """

    def __init__(
        self,
        config: KafkaConfig,
        runtime: Runtime,
        coordination_factory: Callable[[], CoordinationService],
        channel: BrokerChannel,
        log_directory: LogDirectory,
        emit: Emit,
        say: Callable[[str], None] = _say_nothing,
        more_log_directories: Sequence[LogDirectory] = (),
        halt: Callable[[str], None] = _say_nothing,
        resolve: Resolve = str,
    ) -> None:
        """`halt` ends the process at once: no log directory is left to work with.  `resolve` finds the addresses of
        hosts that limits of connections name."""
        self.config = config
        self.cluster_id = ""
        self.state = "created"
        self.leave_now = False
        """The whole cluster is being stopped: a controlled shutdown tries once, then leaves as it is."""
        self.metadata = MetadataCache(runtime)
        self.coordination = coordination_factory()
        self._runtime = runtime
        self._channel = channel
        self._halt = halt
        self._emit = emit
        self._say = say
        self._advertised: tuple[Listener, ...] = config.advertised_listeners
        self._tasks: list[Task] = []
        self._renewing = False
        self._logs_open = False
        self._log_intact = False
        """What the registration says."""
        self._creating: dict[str, None] = {}
        self._heard_ms = runtime.now().mono_ms
        self._zk = Zk(self.coordination, runtime, config.number("zookeeper.max.in.flight.requests"))
        self._controller_config = controller_config(config)
        self.quotas = client_throttles(config, runtime)
        self.configs = EntityConfigs(self._zk, runtime, config, emit, self._config_changed)
        self._resolve = resolve
        self.connections = connection_quotas(config, runtime)
        self.connections.configure(connection_limits(config, self.configs, resolve))
        self.controller = KafkaController(
            config.broker_id, self._controller_config, self.coordination, channel, runtime, emit, self._broker_info
        )
        self.replicas = ReplicaManager(
            config.broker_id,
            replica_config(config),
            log_directory,
            channel,
            ControllerGateway(runtime, self.metadata, channel),
            self.metadata,
            runtime,
            emit,
            lambda: self.controller.broker_epoch,
            self.configs.topic_overrides,
            isr_writer(config, self._zk, runtime, emit),
            more_log_directories,
            self._log_dir_failed,
            lambda: self.controller.controller_epoch,
        )
        self._own_registration = RegistrationWatch(
            self._zk,
            runtime,
            self._broker_info,
            lambda: self.controller.is_registered,
            self.controller.session_renewed,
            say,
        )
        self.groups = GroupCoordinator(group_config(config), self.replicas, runtime, emit)
        self._admin = ZkAdminManager(self._zk, runtime, config, self.metadata)
        self._handlers = self._routes()

    def _routes(self) -> dict[ApiKey, Handler]:
        producer_ids = ProducerIds(self._zk, self._runtime, self.config.broker_id)
        config_admin = ConfigAdmin(self._zk, self.config, self.metadata)
        entity_znodes = EntityZnodes(self._zk)
        quotas = ClientQuotas(entity_znodes, self._resolve)
        describer = ConfigDescriber(self._zk, self.config, self.metadata)
        return {
            **DataHandlers(self.config, self.metadata, self.replicas, self._runtime, self.quotas).table(),
            **MetadataHandlers(self.metadata, producer_ids, self._create_missing, lambda: self.cluster_id).table(),
            **AdminHandlers(
                self._admin,
                describer,
                config_admin,
                self.metadata,
                lambda: self.controller.is_active,
                self.quotas.mutations,
            ).table(),
            **ControlHandlers(
                self.replicas, self.metadata, self.configs, self.controller, self.groups, self._heard
            ).table(),
            **UserHandlers(quotas, ScramCredentials(entity_znodes), lambda: self.controller.is_active).table(),
            **LogHandlers(self.config.log_dirs, self.replicas, self.metadata).table(),
            **AbsentHandlers(lambda: self.controller.is_active).table(),
            **GroupHandlers(self.groups).table(),
            **OffsetHandlers(self.groups, self.metadata, self._zk, self._runtime, self._create_missing).table(),
        }

    # ---- requests ---------------------------------------------------------------------------------------------

    def handle(
        self, message: KafkaMessage, client_id: str = "", listener: str = "", client_host: str = ""
    ) -> Coroutine[Any, Any, KafkaMessage | None]:
        """Carry a request out: its response, None where the client expects none.

        Raises RequestRefused where the connection is to be closed instead.  Requests of one connection are to be
        handled one after the other, as Kafka does.
        """
        return self.serve(message, RequestContext(client_id, listener, client_host))

    async def serve(self, message: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
        """Carry a request out, as `handle`; its context then says for how long the client is not to be heard."""
        # While the id is still registered by the process before this one, the controller means that one: what it sends
        # must not make this one lead or follow.  Kafka, too, serves nobody before it is registered.
        if self.state not in ("running", "shutting_down", "registering") or self.controller.broker_epoch < 0:
            raise RequestRefused(f"broker {self.config.broker_id} is {self.state}")
        response = await self._handlers[ApiKey(api_key_of(message))](message, context)
        if self.quotas.request.is_used and response is not None:
            return self.quotas.hold_to_request_time(response, context)
        return response

    def _heard(self, controller_id: int, controller_epoch: int) -> None:
        self._heard_ms = self._runtime.now().mono_ms
        self.controller.controller_seen(controller_id, controller_epoch)

    # ---- life -------------------------------------------------------------------------------------------------

    async def start(self, advertised: Sequence[Listener] | None = None) -> None:
        """Join the cluster; returns once this broker is registered and a candidate for controller.

        `advertised` replaces the configured listeners, where the ports were not known before.  Raises BrokerIdInUse
        where another live broker has this id, InconsistentMetaProperties, and ZooKeeperError.
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
                # Before the controller has begun, a new session is all that is needed.
                await self.coordination.renew()
        self._tasks.append(self._runtime.spawn(self.configs.follow(), f"configs of broker {self.config.broker_id}"))
        self._tasks.append(self._runtime.spawn(self._own_registration.follow(), "own registration"))
        self.state = "running"
        if self.coordination.state is SessionState.EXPIRED:
            self._renew_later()

    async def _join(self) -> None:
        await create_persistent_paths(self._zk)
        self.cluster_id = await cluster_id(self._zk, self._runtime.random)
        self.replicas.claim_log_directories(self.cluster_id)
        await self.configs.load()
        if not self._logs_open:
            self._logs_open = True
            self.replicas.start()
            self._log_intact = self._intact_since >= 0
        self.groups.start(await self._consumer_offsets_partitions())
        self.state = "registering"
        await self._register()

    async def _consumer_offsets_partitions(self) -> int | None:
        """How many partitions `__consumer_offsets` has; None where it is not there yet."""
        outcome = await self._zk.attempt(lambda: self.coordination.get(znodes.topic_path(CONSUMER_OFFSETS)))
        topic = None if outcome.value is None else znodes.decode_topic(outcome.value[0])
        return len(topic.partitions) if topic is not None and topic.partitions else None

    async def _register(self) -> None:
        """Start the controller, which registers; where the id is still taken, wait for that session to expire."""
        wait_ms = 2 * self.config.session_timeout_ms + REGISTRATION_POLL_MS
        deadline_ms = self._runtime.now().mono_ms + wait_ms
        said = False
        while True:
            try:
                await self.controller.startup()
                return
            except BrokerIdInUse as in_use:
                if self._runtime.now().mono_ms >= deadline_ms:
                    raise
                if not said:
                    said = True
                    self._say(
                        f"broker id {self.config.broker_id} is still registered: {in_use}; "
                        f"waiting up to {wait_ms} ms for that session to expire"
                    )
            await self._runtime.sleep(REGISTRATION_POLL_MS)

    async def stop(self) -> None:
        """Controlled shutdown: hand leaderships over, resign, close the logs, end the session."""
        if self.state in ("shutting_down", "stopped"):
            return
        was_running = self.state == "running"
        self.state = "shutting_down"
        if was_running and self.config.flag("controlled.shutdown.enable"):
            await self._controlled_shutdown()
        await self.controller.shutdown()
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self.groups.close()
        # The controller may have something to say until the session ends: by then these logs are closed, and a
        # replica that is not there would be begun anew.
        self.state = "stopped"
        if self._logs_open:
            self.replicas.shutdown(self._intact_since)
        await self.coordination.close()
        self._emit(NodeStopped("shutdown"))

    @property
    def _intact_since(self) -> int:
        """The registration since which nothing can have been lost here, or -1.

        That is this process's own once a controller has told it its part, for it has dealt with what came back.
        """
        return self.controller.broker_epoch if self.replicas.partitions else self.replicas.broker_epoch_left

    async def _controlled_shutdown(self) -> None:
        for attempts_left in reversed(range(max(1, self.config.number("controlled.shutdown.max.retries")))):
            if await self._ask_to_leave():
                return
            if not attempts_left or not await self._back_off_before_leaving():
                break
        self._say("proceeding with an unclean shutdown: not every leadership could be handed over")

    async def _back_off_before_leaving(self) -> bool:
        """Wait before the next attempt; False at once where no broker is left to hand leaderships to, or the whole
        cluster is being stopped.
        """
        left_ms = self.config.number("controlled.shutdown.retry.backoff.ms")
        said = False
        while left_ms > 0:
            if self.leave_now or not await self._others_registered():
                return False
            if not said:
                said = True
                self._say("retrying controlled shutdown: partitions are still led here, or no controller answered")
            step_ms = min(left_ms, LEAVING_POLL_MS)
            await self._runtime.sleep(step_ms)
            left_ms -= step_ms
        return True

    async def _others_registered(self) -> bool:
        """Is another broker registered?  Where the ensemble does not answer there is nobody to hand over to either."""
        answer: Future[bool] = self._runtime.future()

        def finish(others: bool) -> None:
            if not answer.done():
                answer.set_result(others)

        async def ask() -> None:
            try:
                registered = await self.coordination.get_children(znodes.BROKER_IDS)
                finish(any(broker_id != str(self.config.broker_id) for broker_id in registered))
            except ZooKeeperError:
                finish(False)

        asking = self._runtime.spawn(ask(), "who is registered")
        timer = self._runtime.call_later(LEAVING_POLL_MS, lambda: finish(False))
        others: bool = await answer
        timer.cancel()
        asking.cancel()
        return others

    async def _ask_to_leave(self) -> bool:
        """One attempt of a controlled shutdown: is there nothing left that this broker leads?"""
        endpoint = self.metadata.endpoint(self.metadata.controller_id)
        if endpoint is None:
            return False
        leaving = request(
            ApiKey.CONTROLLED_SHUTDOWN,
            CONTROLLED_SHUTDOWN_VERSION,
            broker_id=self.config.broker_id,
            broker_epoch=self.controller.broker_epoch,
        )
        timeout_ms = min(self.config.number("controller.socket.timeout.ms"), CONTROLLED_SHUTDOWN_ATTEMPT_MS_MAX)
        try:
            answer = await self._channel.call(endpoint, leaving, timeout_ms)
        except ChannelBroken:
            return False
        return answer.error_code == ErrorCode.none and not answer.remaining_partitions

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
        """KafkaZkClient's order at expiry: resign, new session, register again, elect again."""
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
        self.controller.session_renewed()

    def _broker_info(self) -> BrokerInfo:
        endpoints = tuple(BrokerEndpoint(each.name, each.host, each.port) for each in self._advertised)
        intact = self._log_intact and Historical.LAST_REPLICA_STANDING not in self.config.historical
        return BrokerInfo(self.config.broker_id, endpoints, self.config.rack, log_intact=intact)

    async def confirm_controller(self) -> None:
        """Ask the ensemble whether whom this broker believes in is controller; where so, the belief is fresh again."""
        with suppress(ZooKeeperError):
            data, _ = await self.coordination.get(znodes.CONTROLLER)
            if znodes.decode_controller(data) == self.controller.active_controller_id:
                self._heard_ms = self._runtime.now().mono_ms

    # ---- configuration ----------------------------------------------------------------------------------------

    def _config_changed(self, entity: str) -> None:
        kind, _, name = entity.partition("/")
        if kind == "topics":
            self.replicas.topic_config_changed(name)
            if self.configs.overrides(entity).get(UNCLEAN, "").strip().lower() == "true":
                self.controller.topic_unclean_enabled(name)
            return
        if kind == "ips":
            self._limit_address(name, self.configs.overrides(entity).get(CONNECTION_RATE))
            return
        if kind != "brokers":
            self.quotas.take_over(entity, self.configs.overrides(entity))
            return
        self.connections.configure(connection_limits(self.config, self.configs, self._resolve))
        every, own = (self.configs.overrides(f"brokers/{name}") for name in (DEFAULT_ENTITY, self.config.broker_id))
        self.replicas.throttles.set_rates({**every, **own})
        for topic in sorted({topic_partition.topic for topic_partition in self.replicas.partitions}):
            self.replicas.topic_config_changed(topic)
        unclean = self.configs.broker_value(UNCLEAN) is True
        was, self._controller_config.unclean_leader_election_enable = (
            self._controller_config.unclean_leader_election_enable,
            unclean,
        )
        if unclean and not was:
            self.controller.unclean_default_enabled()

    def _limit_address(self, node: str, rate: str | None) -> None:
        per_second = number(rate)
        address = None if node == DEFAULT_ENTITY else self._resolve(unquote(node))
        if node == DEFAULT_ENTITY or address is not None:
            self.connections.limit_address(address, None if per_second is None else int(per_second))

    # ---- log directories --------------------------------------------------------------------------------------

    def _log_dir_failed(self) -> None:
        if self.replicas.has_storage:
            self._say("a log directory has failed and is offline")
            self._runtime.spawn(self._tell_of_failed_log_dir(), f"log_dir_event of broker {self.config.broker_id}")
        else:
            self.state = "stopped"
            reason = "every log directory has failed"
            self._emit(NodeStopped(reason))
            self._halt(reason)

    async def _tell_of_failed_log_dir(self) -> None:
        """Leave the controller a note (KIP-112); it then asks how every replica here stands."""
        path = f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/log_dir_event_"
        data = znodes.encode_log_dir_event(self.config.broker_id)
        while self.state in ("registering", "running"):
            with suppress(SessionExpired):
                await self._zk.attempt(lambda: self.coordination.create(path, data, sequential=True))
                return
            await self._runtime.sleep(REGISTRATION_POLL_MS)

    # ---- topics made because somebody asked for them ----------------------------------------------------------

    def _create_missing(self, topic: str, client_id: str) -> ErrorCode:
        wanted = self._new_topic(topic)
        if topic != CONSUMER_OFFSETS and not self.config.flag("auto.create.topics.enable"):
            return ErrorCode.unknown_topic_or_partition
        if wanted.replication_factor > len(self.metadata.brokers()):
            return ErrorCode.invalid_replication_factor
        if topic not in self._creating and len(self._creating) < CREATING_MAX:
            self._creating[topic] = None
            self._runtime.spawn(self._create(wanted, client_id), f"create topic {topic}")
        return ErrorCode.leader_not_available

    def _new_topic(self, topic: str) -> NewTopic:
        """A topic as it is made unasked: `__consumer_offsets` with its own settings, which have to be met."""
        if topic == CONSUMER_OFFSETS:
            config = self.groups.config
            count, factor = config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
            return NewTopic(topic, count, factor, {}, config.offsets_topic_configs)
        config_default = self.config.number("default.replication.factor")
        return NewTopic(topic, -1, config_default, {}, {})

    async def _create(self, wanted: NewTopic, client_id: str) -> None:
        try:
            timeout_ms = self.config.number("request.timeout.ms")
            # The client asked about a topic, not for it: it is not refused, but owes what it took.
            count = self.quotas.mutations.permissive(client_id).record
            await self._admin.create_topics([wanted], timeout_ms, validate_only=False, count=count)
        finally:
            del self._creating[wanted.name]

    # ---- reports ----------------------------------------------------------------------------------------------

    def status(self) -> BrokerStatus:
        """This broker's own word on itself."""
        return describe(
            self.config.broker_id,
            self.state,
            self.coordination,
            self.controller,
            self._runtime.now().mono_ms - self._heard_ms,
            self.replicas,
            self.metadata,
        )
