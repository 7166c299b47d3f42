"""The controller of a broker: a candidate or, while the broker holds /controller, the active controller.

Theory of operation
===================

A `KafkaController` lives as long as its broker process. It has one event queue (`zabka.controller.events`) with one
task: the next event begins when the previous one has ended. Watches, requests, timers and the replies of brokers only
put events into the queue (`EventSignals`). All state of an active controller belongs to one controller term (class
`ControllerTerm`). A term begins with a won election, ends in `_resign`, and passes no state to the next one.

    state        condition                           processes
    -----------  ----------------------------------  ---------------------------------------------------------------
    new          the queue is not running            nothing; `startup` registers the broker, then starts the queue
    candidate    running, `_term` is None           candidate events; requests get NOT_CONTROLLER or its equivalent
    sitting out  candidate before _sit_out_until_ms  the same, but `_elect` waits for a timer
    expired      candidate without a session         the same; every request to ZooKeeper raises SessionExpired
    active       running, `_term` is set            all events
    stopped      after `shutdown`                    nothing; requests get the same errors

    event                     put by                                                      effect
    ------------------------  ----------------------------------------------------------  -------------------------
    Startup                   startup                                                     look, elect
    ControllerChange          watch on /controller; a broker or an accepted request that  look, elect
                              shows a later controller epoch
    Reelect                   timer after sitting out; a race lost with no winner left    look, elect
    RegisterBrokerAndReelect  session_renewed; timer while the id is in use               register, look, elect
    Expire                    session_expired                                             resign, "session_expired"
    ControllerShutdown        shutdown                                                    resign, "shutdown"
    requests                  alter_partition, elect_leaders and the other calls          handled if active
    `_WHEN_ACTIVE`            watches, timers, changed configurations                     handled if active

- look (`_look`): watch /controller, then read it with /controller_epoch. Resign if they do not confirm the term.
- elect (`_elect`): if /controller is absent, or contains this session although no term is active (KAFKA-13407), race
  for it. One transaction creates /controller and raises /controller_epoch (`register_controller`). The winner begins a
  term (`_begin`), reads the whole cluster, and sends every broker its state (`zabka.controller.failover`).
- An event that raises ControllerMoved ends the term and elects again. SessionExpired ends the term. Any other exception
  ends the term, deletes /controller, and lets other brokers go first for `sit_out_ms` (`_move_away`).

Invariants
----------

1. All decisions of a term are made in the queue's task.  Only these calls act outside it: `startup` registers before
   the queue runs, `shutdown` resigns after it has stopped, and `controller_seen` records a later controller's epoch.
2. Every write of a term is a transaction with check(/controller_epoch, version of the term) (`FencedWriter`).  After
   another election it fails as a whole, raises ControllerMoved, and is journalled.  Two writes are not fenced: a
   producer id block has only compare-and-set, and a missing top-level path is created again.  Reads are not fenced.
3. At most one term is active in a process.  `_begin` runs only in `_elect`, and `_process_reelect` calls `_elect` only
   if no term is active: if /controller is absent, `_look` has ended the term.
4. A term does not outlive its session.  `session_expired` returns when `Expire` has been processed, and the broker
   opens a new session only then.  The next registration also deletes a /controller that the old term may have left
   (`_withdraw`), fenced by the old term's version.
5. `controller_epoch` never decreases (`_epoch_seen`), and after a registration it is at least the ensemble's.
6. A sign of a later controller does not end a term by itself: it puts ControllerChange, and `_look` decides.  Until
   then the broker is a zombie controller: invariant 2 and the brokers' epoch checks protect the cluster.
7. Every request gets a reply, whatever happens to its event: `EventSignals.request` replies on success, on every
   exception, and when the queue is cleared or full.

A broker fails
--------------

Broker 2 leads t-0, and its session expires.  ZooKeeper deletes /brokers/ids/2 and fires the watch that this term left
on /brokers/ids; the watcher puts BrokerChange.  `_process` begins the event, and `process_broker_change` reads the ids
again and leaves a new watch.  It removes broker 2 from the context and closes its channel.  `on_replicas_offline` moves
t-0 to Offline and then to Online.  The partition state machine reads the state znode, picks the first live replica of
the ISR (`zabka.controller.election`), and writes the state with leader epoch + 1 by compare-and-set, fenced.  The
request batch queues LeaderAndIsr for the live replicas and UpdateMetadata for all brokers, and the channels send them
in their own tasks.  The event ends without waiting for the replies.  If the write was fenced, the event raises
ControllerMoved before the batch is sent, and `_resign` discards it.

Sources
-------

kafka.controller.KafkaController (startup, elect, maybeResign, triggerControllerMove, onControllerFailover,
onControllerResignation, processExpire, processRegisterBrokerAndReelect), ControllerEventManager, and
KafkaZkClient.registerControllerAndIncrementControllerEpoch.  Kafka's `process` logs an exception and continues the
term; this controller ends it.  Kafka does not elect on ControllerChange, nor while /controller contains the
broker itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kio.schema.errors import ErrorCode as KafkaError

from zabka.controller.alter_partition import (
    process_alter_partition,
    reassign_after_alter_partition,
    refuse_alter_partition,
)
from zabka.controller.causes import CurrentCauses
from zabka.controller.config import ControllerConfig
from zabka.controller.controlled_shutdown import controlled_shutdown_response, process_controlled_shutdown
from zabka.controller.event_signals import EventSignals
from zabka.controller.events import ControllerEvent, EventQueue
from zabka.controller.failover import fail_over
from zabka.controller.historical import Historical
from zabka.controller.leader_elections import (
    process_elect_leaders,
    refuse_elect_leaders,
    requested_partitions,
)
from zabka.controller.legacy import Legacy
from zabka.controller.log_dir_failures import on_leader_and_isr_answered
from zabka.controller.metrics import ControllerStats, mbeans
from zabka.controller.producer_id_blocks import process_allocate_producer_ids, producer_ids_response
from zabka.controller.reassignment_requests import (
    process_alter_reassignments,
    process_list_reassignments,
    refuse_alter_reassignments,
    refuse_list_reassignments,
)
from zabka.controller.term import ControllerTerm
from zabka.ensemble.client.service import CoordinationService
from zabka.ensemble.errors import SessionExpired
from zabka.ensemble.ids import SessionId
from zabka.ensemble.ports import Runtime, Timer
from zabka.journal import events as journal
from zabka.journal.admin_requests import admin_requested
from zabka.journal.cause import START, UNKNOWN, Cause, expiry_cause, owner_cause, request_cause
from zabka.kafka.ports import BrokerChannel, BrokerEpoch, BrokerId, ControllerEpoch, Emit, KafkaMessage
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import ControllerMoved, Zk
from zabka.kafka.zk.registration import (
    BrokerIdInUse,
    ControllerSeen,
    Won,
    controller_epoch_now,
    create_persistent_paths,
    read_controller,
    register_broker,
    register_controller,
    remove_any_controller,
    remove_controller,
)
from zabka.kafka.zk.znodes import BrokerInfo


class KafkaController:
    """One broker's controller.

    `broker_info` is called at each registration and returns the content of /brokers/ids/<id>. `config` is read whenever
    it is needed, because the broker may change it in place. The broker calls `startup()` once the coordination service
    has a session. When that session expires, it awaits `session_expired()`, renews the session, and calls
    `session_renewed()`. It calls `shutdown()` before it closes the session.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        config: ControllerConfig,
        coordination: CoordinationService,
        channel: BrokerChannel,
        runtime: Runtime,
        emit: Emit,
        broker_info: Callable[[], BrokerInfo],
    ) -> None:
        self._broker_id = BrokerId(broker_id)
        self._config = config
        self._service = coordination
        self._channel = channel
        self._runtime = runtime
        self._emit = emit
        self._broker_info = broker_info
        self._zk = Zk(coordination, runtime, config.zookeeper_max_in_flight_requests)
        self._events = EventQueue(runtime, self._process)
        self._own_sessions: dict[SessionId, None] = {}
        self._broker_epoch = BrokerEpoch(-1)
        old = config.historical
        self._legacy = Legacy(old)
        self._stats = ControllerStats()
        self._remove_controller = remove_any_controller if Historical.UNFENCED_CONTROLLER in old else remove_controller
        self._replaces_ghosts = Historical.GHOST_CONTROLLER not in old
        self._waits_for_its_id = Historical.FOREIGN_EPHEMERAL not in old
        self._term: ControllerTerm | None = None
        self._lapsed: tuple[int, int] | None = None
        self._believed = (-1, 0, False)
        self._epoch_seen = 0
        self._sit_out_until_ms = 0
        self._timers: dict[str, Timer] = {}
        self._owner_seen = 0
        self._causes = CurrentCauses()
        self._causes.start_event(START)
        self._signals = EventSignals(runtime, self._events, lambda: self._term, self._candidate_events())

    # -- state for reports

    @property
    def is_active(self) -> bool:
        """Whether this broker considers itself the controller.

        A zombie controller considers itself the controller, too, until it learns that another controller was elected.
        """
        return self._term is not None

    @property
    def active_controller_id(self) -> int:
        """Id of the broker that this broker considers the controller; -1 for none."""
        return self._believed[0]

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """The highest controller epoch that this broker has seen from any source; 0 if it has seen none.

        Once this broker has registered, this is at least the controller epoch that the ensemble had at the
        registration.
        """
        return ControllerEpoch(self._epoch_seen)

    @property
    def is_registered(self) -> bool:
        """Whether this broker has registered in its current session."""
        return self._service.session_id in self._own_sessions

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The czxid of this broker's registration; -1 if it has not registered."""
        return self._broker_epoch

    @property
    def term(self) -> ControllerTerm | None:
        """The state of the active controller term, for reports and metrics; None while this broker is not active."""
        return self._term

    @property
    def stats(self) -> ControllerStats:
        """Counts of the controller's events and elections since this process started."""
        return self._stats

    def metrics(self) -> dict[str, dict[str, int]]:
        """The metrics of Kafka's domain kafka.controller, keyed by MBean type and name."""
        term = self._term
        return mbeans(
            self._stats,
            term.context if term is not None else None,
            len(self._events),
            term.channels.total_queue_size if term is not None else 0,
        )

    def controller_seen(self, controller_id: int, controller_epoch: int) -> None:
        """Record the controller that sent an accepted request, so that the journal contains the current controller."""
        if controller_epoch <= self._believed[1]:
            return
        if self._term is not None:
            self.controller_changed()
        else:
            self._believe(controller_id, controller_epoch)

    def controller_changed(self) -> None:
        """Check whether another controller was elected, and resign if so."""
        self._signals.put("ControllerChange", "", request_cause("of a later controller"))

    # -- the broker's calls

    async def startup(self) -> None:
        """Register this broker, then take part in elections.

        First creates the persistent paths. Raises BrokerIdInUse if another session has registered this id; `startup`
        can then be called again. Raises ZooKeeperError.
        """
        await create_persistent_paths(self._zk)
        await self._register()
        self._events.start(f"controller-event-thread-{self._broker_id}")
        self._signals.put("Startup", "", START)

    async def shutdown(self) -> None:
        """Reject waiting requests, finish the current event (within a limit), and resign. Does not close the
        session.
        """
        if not self._events.running:
            return
        event = ControllerEvent("ControllerShutdown", self._process_shutdown, request_cause("shutdown"))
        self._events.clear_and_put(event)
        await self._events.wait(event, self._config.shutdown_wait_ms)
        self._events.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._resign("shutdown", request_cause("shutdown"))

    async def session_expired(self) -> None:
        """End the controller term of an expired session.

        Returns once this broker has resigned. The broker can open a new session only after that.
        """
        if self._events.running:
            event = ControllerEvent("Expire", self._process_expire, expiry_cause(self._service.session_id))
            self._events.clear_and_put(event)
            await self._events.wait(event)

    def session_renewed(self) -> None:
        """Handle a new session: register again, and take part in elections again."""
        before = next(reversed(self._own_sessions), None)
        if before is None:
            caused_by = START
        elif before == self._service.session_id:
            caused_by = request_cause("of whoever took the registration away")
        else:
            caused_by = expiry_cause(before)
        self._signals.put("RegisterBrokerAndReelect", "", caused_by)

    def alter_partition(self, request: KafkaMessage) -> Awaitable[KafkaMessage]:
        """Process AlterPartition, versions 0 to 3. If this broker is not the controller, the error is
        NOT_CONTROLLER.
        """
        return self._signals.request(
            "AlterPartition",
            lambda term: process_alter_partition(term, request),
            lambda error: refuse_alter_partition(error, request),
            KafkaError.not_controller,
            afterwards=lambda term, response: reassign_after_alter_partition(term, request, response),
        )

    def controlled_shutdown(self, request: KafkaMessage) -> Awaitable[KafkaMessage]:
        """Process ControlledShutdown, versions 0 to 3.

        If this broker is not the controller, the error is STALE_CONTROLLER_EPOCH (Kafka's ControllerMoved).
        """
        return self._signals.request(
            "ControlledShutdown",
            lambda term: process_controlled_shutdown(term, request),
            lambda error: controlled_shutdown_response(request, error),
            KafkaError.stale_controller_epoch,
            lambda: self._asked("ControlledShutdown", [], f"broker {request.broker_id}"),
        )

    def elect_leaders(self, request: KafkaMessage, client: str = "") -> Awaitable[KafkaMessage]:
        """Process ElectLeaders, version 2. If this broker is not the controller, the error is NOT_CONTROLLER."""
        return self._signals.request(
            "ReplicaLeaderElection",
            lambda term: process_elect_leaders(term, request),
            lambda error: refuse_elect_leaders(error, request),
            KafkaError.not_controller,
            lambda: self._asked("ElectLeaders", list(map(str, requested_partitions(request) or [])), client),
        )

    def alter_partition_reassignments(self, request: KafkaMessage, client: str = "") -> Awaitable[KafkaMessage]:
        """Process AlterPartitionReassignments, version 0. If this broker is not the controller, the error is
        NOT_CONTROLLER.
        """
        return self._signals.request(
            "ApiPartitionReassignment",
            lambda term: process_alter_reassignments(term, request),
            refuse_alter_reassignments,
            KafkaError.not_controller,
            lambda: self._asked("AlterPartitionReassignments", [str(topic.name) for topic in request.topics], client),
        )

    def list_partition_reassignments(self, request: KafkaMessage) -> Awaitable[KafkaMessage]:
        """Process ListPartitionReassignments, version 0. If this broker is not the controller, the error is
        NOT_CONTROLLER.
        """
        return self._signals.request(
            "ListPartitionReassignments",
            lambda term: process_list_reassignments(term, request),
            refuse_list_reassignments,
            KafkaError.not_controller,
        )

    def allocate_producer_ids(self, request: KafkaMessage) -> Awaitable[KafkaMessage]:
        """Process AllocateProducerIds, version 0. If this broker is not the controller, the error is NOT_CONTROLLER."""
        return self._signals.request(
            "AllocateProducerIds",
            lambda term: process_allocate_producer_ids(term, request),
            producer_ids_response,
            KafkaError.not_controller,
        )

    def unclean_default_enabled(self) -> None:
        """Elect leaders where that is now possible: the broker's default of unclean.leader.election.enable became true.

        `config` already contains the new value.
        """
        self._signals.put("UncleanLeaderElectionEnable", "", request_cause("AlterConfigs"))

    def topic_unclean_enabled(self, topic: str) -> None:
        """Retry elections, because the topic's unclean.leader.election.enable became true."""
        self._signals.put("TopicUncleanLeaderElectionEnable", topic, request_cause("AlterConfigs"))

    def _asked(self, request: str, subjects: list[str], client: str) -> Cause:
        return self._emit(admin_requested(request, subjects, client))

    # -- events

    def _candidate_events(self) -> dict[str, Callable[[], Awaitable[None]]]:
        return {
            "Startup": self._process_reelect,
            "ControllerChange": self._process_reelect,
            "Reelect": self._process_reelect,
            "RegisterBrokerAndReelect": self._process_register_and_reelect,
        }

    # -- processing

    async def _process(self, event: ControllerEvent) -> None:
        """Process an event, and count it."""
        began_ms = self._runtime.now().mono_ms
        self._causes.start_event(event.caused_by)
        self._stats.event_started(event.name, began_ms - event.put_ms)
        await self._process_safely(event)
        self._stats.event_finished(self._runtime.now().mono_ms - began_ms)

    async def _process_safely(self, event: ControllerEvent) -> None:
        """Process an event. Handle every exception, so that the queue continues."""
        try:
            await self._process_or_move(event)
        except SessionExpired:
            # This controller can make no more decisions. The next event of the broker is Expire.
            self._resign("session_expired", expiry_cause(self._session_held()))
        except ControllerMoved:
            self._resign("controller_moved", owner_cause(self._session_held()))
        except Exception as error:
            self._resign("illegal_state", self._report(event.name, error))

    async def _process_or_move(self, event: ControllerEvent) -> None:
        try:
            await event.process()
        except ControllerMoved:
            self._resign("controller_moved", owner_cause(self._session_held()))
            self._causes.start_event(UNKNOWN)
            await self._process_reelect()
        except SessionExpired:
            raise
        except Exception as error:
            await self._move_away(self._report(event.name, error))

    def _report(self, event: str, error: Exception) -> Cause:
        problem = f"{type(error).__name__}: {error}"
        return self._emit(journal.ControllerEventFailed(self._broker_id, self.controller_epoch, event, problem))

    async def _process_reelect(self) -> None:
        """Read /controller (maybeResign). If it does not exist, try to become controller (elect)."""
        seen = await self._look()
        if seen.broker_id == -1 or self._is_ghost(seen):
            await self._elect(seen)

    async def _process_register_and_reelect(self) -> None:
        try:
            await self._register()
        except BrokerIdInUse as error:
            # The id may be registered by a session of this broker whose creation was never acknowledged (KAFKA-14845).
            # That session will expire.
            self._report("RegisterBrokerAndReelect", error)
            if self._waits_for_its_id:
                self._later("RegisterBrokerAndReelect", self._config.registration_retry_ms)
            return
        await self._withdraw()
        await self._process_reelect()

    async def _withdraw(self) -> None:
        """Delete the /controller znode that may remain from a term that a session expiry has ended.

        The write is fenced like every write of that term. If another term has begun since, the write fails and is
        journalled.
        """
        lapsed, self._lapsed = self._lapsed, None
        if lapsed is not None:
            epoch, epoch_zk_version = lapsed
            if (
                not await self._remove_controller(self._zk, epoch_zk_version)
                and (await read_controller(self._zk)).epoch > epoch
            ):
                refused = ("delete", znodes.CONTROLLER)
                self._emit(journal.WriteFenced(self._broker_id, epoch, *refused, epoch_version=epoch_zk_version))

    async def _process_expire(self) -> None:
        self._resign("session_expired", expiry_cause(self._session_held()))
        self._believe(-1, self.controller_epoch)

    async def _process_shutdown(self) -> None:
        self._resign("shutdown", request_cause("shutdown"))

    async def _register(self) -> None:
        info = self._broker_info()
        now = self._runtime.now()
        session_id = self._service.session_id
        epoch = await register_broker(self._zk, info, now.wall_ms, self._own_sessions)
        self._own_sessions[session_id] = None
        # Read the controller epoch after the registration. A controller that was deposed earlier can still send
        # requests to this broker, which must reject them even if it has not received requests of any controller yet. A
        # session's read is never older than the session's own write.
        self._epoch_seen = max(self._epoch_seen, await controller_epoch_now(self._zk))
        self._broker_epoch = BrokerEpoch(epoch)
        self._emit(journal.BrokerRegistered(self._broker_id, epoch, session_id, self._causes.cause))

    # -- the race for /controller

    async def _look(self) -> ControllerSeen:
        """Watch /controller and read it. If it no longer names this broker and session, end the term."""
        watcher = self._signals.watcher("ControllerChange")
        await self._zk.call(lambda: self._service.exists(znodes.CONTROLLER, watcher))
        seen = await read_controller(self._zk)
        self._owner_seen = seen.owner or self._owner_seen
        if self._term is not None and not self._confirms(seen, self._term):
            self._resign("controller_moved", owner_cause(self._session_held()))
        # A server that lags may still return a controller that is known to have resigned.
        if seen.epoch >= self.controller_epoch:
            self._believe(seen.broker_id, seen.epoch)
        return seen

    def _confirms(self, seen: ControllerSeen, term: ControllerTerm) -> bool:
        return self._is_ours(seen) and seen.epoch_zk_version == term.context.epoch_zk_version

    def _is_ours(self, seen: ControllerSeen) -> bool:
        return seen.broker_id == self._broker_id and seen.owner == self._service.session_id

    def _is_ghost(self, seen: ControllerSeen) -> bool:
        """Return whether /controller contains this session although no controller term is active (KAFKA-13407).

        If this were not detected, no controller would act until the session expires.
        """
        return self._replaces_ghosts and self._term is None and self._is_ours(seen)

    async def _elect(self, seen: ControllerSeen) -> None:
        now = self._runtime.now()
        if now.mono_ms < self._sit_out_until_ms:
            self._later("Reelect", self._sit_out_until_ms - now.mono_ms)
            return
        if self._is_ghost(seen):
            await remove_controller(self._zk, seen.epoch_zk_version)
        if self._causes.cause == UNKNOWN and self._owner_seen:
            # The cause is unknown if the watch event of /controller did not contain a zxid, or if no watch fired.
            self._causes.cause = owner_cause(self._owner_seen)
        won = await register_controller(self._zk, self._broker_id, now.wall_ms)
        if won is None:
            if (await self._look()).broker_id == -1:
                # There is no controller: another broker has increased the epoch without creating /controller. No watch
                # will fire, so retry.
                self._signals.put("Reelect", "", self._causes.cause)
            return
        await self._begin(won)

    async def _begin(self, won: Won) -> None:
        self._term = term = ControllerTerm(
            broker_id=self._broker_id,
            won=won,
            zk=self._zk,
            config=self._config,
            channel=self._channel,
            runtime=self._runtime,
            emit=self._emit,
            causes=self._causes,
            signals=self._signals,
            legacy=self._legacy,
            stats=self._stats,
            on_leader_and_isr=on_leader_and_isr_answered,
        )
        self._causes.cause = self._emit(
            journal.ControllerElected(
                broker_id=self._broker_id,
                controller_epoch=won.epoch,
                zk_version=won.epoch_zk_version,
                zxid=won.zxid,
                caused_by=self._causes.cause,
            )
        )
        self._owner_seen = self._service.session_id
        self._believe(self._broker_id, won.epoch)
        await fail_over(term)

    def _session_held(self) -> int:
        """Return the id of the session in which this broker last registered, or 0 if it never registered.

        A new session has since replaced it.
        """
        return next(reversed(self._own_sessions), 0)

    def _resign(self, reason: str, caused_by: Cause) -> None:
        """Resign: from now on, this broker makes no decisions as controller (onControllerResignation)."""
        if (term := self._term) is None:
            return
        self._term = None
        term.resign()
        if reason == "session_expired":
            self._lapsed = (term.context.epoch, term.context.epoch_zk_version)
        self._emit(journal.ControllerResigned(self._broker_id, term.context.epoch, reason, caused_by))
        self._believe(-1, self.controller_epoch)

    async def _move_away(self, caused_by: Cause) -> None:
        """Resign, delete /controller unless another broker has created it, and let other brokers be elected first.

        Source: triggerControllerMove.
        """
        term = self._term
        self._resign("illegal_state", caused_by)
        self._sit_out_until_ms = self._runtime.now().mono_ms + self._config.sit_out_ms
        self._later("Reelect", self._config.sit_out_ms)
        if term is not None:
            await self._remove_controller(self._zk, term.context.epoch_zk_version)

    def _believe(self, controller_id: int, controller_epoch: int) -> None:
        self._epoch_seen = max(self._epoch_seen, controller_epoch)
        believed = (controller_id, controller_epoch, self._term is not None)
        if believed != self._believed:
            self._believed = believed
            self._emit(journal.ControllerBelieved(self._broker_id, *believed))

    def _later(self, event: str, delay_ms: int) -> None:
        """Queue an event after a delay. If an event of this kind already waits, do nothing."""
        pending = self._timers.pop(event, None)
        if pending is not None:
            pending.cancel()
        caused_by = self._causes.cause
        self._timers[event] = self._runtime.call_later(delay_ms, lambda: self._signals.put(event, "", caused_by))
