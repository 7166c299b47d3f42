"""Request faults at a broker: selects the fault rule for each request, and applies its effect.

A broker without rules has no `RequestFaults`, so its requests have no overhead. Effects on the connection are
exceptions and flags of the request's context, which the port applies (`zabka.broker_sim.kafka_port`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from kio.schema.errors import ErrorCode

from zabka.broker_sim.metadata_cache import MetadataCache, PartitionMetadata
from zabka.broker_sim.request_context import Handler, RequestContext, RequestRefused, Unanswered
from zabka.ensemble.ports import Runtime
from zabka.ensemble.request_fault import ANY, HeldRequestFault
from zabka.ensemble.request_fault_uses import ActiveFaults, Counts, CountUse, FaultUses
from zabka.journal.cause import fault_cause
from zabka.journal.events import RequestFaultApplied
from zabka.kafka.message_names import api_name
from zabka.kafka.ports import Emit, KafkaMessage
from zabka.kafka.request_faults.answers import (
    FetchedRow,
    corrupt_fetched,
    corrupt_produced,
    merge,
    refuse,
    refuse_fetched,
    refuse_metadata,
    split,
    throttled,
)
from zabka.kafka.request_faults.rules import KAFKA_ERRORS, throttle_since
from zabka.kafka.request_faults.subjects import (
    APIS,
    NO_PARTITION,
    Subject,
    may_match,
    name_of,
    selects,
    selects_partition,
    subject_of,
)
from zabka.kafka.wire.data_messages import FetchResponse
from zabka.kafka.wire.kafka_schema import ApiKey, KafkaUuid, api_key_of, version_of
from zabka.kafka.wire.metadata_messages import MetadataResponse, MetadataResponsePartition

SUBJECT_CHARACTERS_MAX = 260
"""Maximum length of topic names and client ids in journal events. Topic names have at most 249 characters; client ids
may be longer.
"""
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
"""Errors that apply to a whole Fetch response, not to one partition."""

SessionPartitions = Callable[[KafkaMessage], Sequence[FetchedRow]]
"""Returns the partitions that a Fetch request reads, including those from its fetch session."""


class RequestFaults:
    """The request fault rules of one broker.

    `fetched` returns the partitions that a Fetch request reads, including those from its fetch session. `count` counts
    how often a rule was applied, in total for all nodes.
    """

    def __init__(
        self, runtime: Runtime, metadata: MetadataCache, emit: Emit, fetched: SessionPartitions, count: CountUse
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._emit = emit
        self._fetched = fetched
        self._active = ActiveFaults(count)
        self.apis: Collection[ApiKey] = ()
        """The APIs that have rules. Requests of other APIs need not be passed to `serve`."""
        self._stale: dict[str, dict[str, list[PartitionMetadata]]] = {}
        """For each rule with stale metadata, keyed by rule id, the metadata at the time when the rule was added."""

    def hold(self, rules: Sequence[HeldRequestFault]) -> None:
        """Replace the active rules. Rules that were already active retain their counts."""
        added = self._active.replace(rules, self._runtime.now().mono_ms)
        self.apis = tuple(APIS.values() if any(rule.api == ANY for rule in rules) else {APIS[r.api]: 0 for r in rules})
        self._stale = {rule.id: self._stale[rule.id] for rule in rules if rule.id in self._stale}
        for rule in added:
            if rule.effect == "stale":
                topics = self._metadata.topics()
                self._stale[rule.id] = {topic: self._metadata.partitions(topic) for topic in topics}

    def counts(self) -> Counts:
        """Return, by rule id, how many requests matched a rule and how often it was applied."""
        return self._active.counts()

    async def serve(self, handler: Handler, request: KafkaMessage, context: RequestContext) -> KafkaMessage | None:
        """Process a request, with the effect of the first rule that applies to it, if any.

        Raises RequestRefused, Unanswered.
        """
        api = ApiKey(api_key_of(request))
        subject = _Subject(request, api, context, self._metadata.topic_of_id, self._fetched)
        rule = self._due(subject, lambda rule: not _needs_records(rule, api))
        if rule is not None:
            return await self._apply(rule, subject, handler)
        response = await handler(request, context)
        return self._corrupt_fetched(subject, response) if isinstance(response, FetchResponse) else response

    def _due(
        self, subject: _Subject, admits: Callable[[HeldRequestFault], bool]
    ) -> HeldRequestFault | None:  # fmt: skip
        """Return the rule to apply to a request, or None. If there is one, count and journal its application."""
        now_ms, draw = self._runtime.now().mono_ms, self._runtime.random.random
        uses = self._active.due(lambda rule: admits(rule) and subject.is_selected_by(rule), now_ms, draw)
        if uses is None:
            return None
        self._report(uses, subject)
        return uses.rule

    def _report(self, uses: FaultUses, subject: _Subject) -> None:
        rule = uses.rule
        client = subject.context.client_id or subject.context.client_host
        texts = (client[:SUBJECT_CHARACTERS_MAX], subject.text(rule)[:SUBJECT_CHARACTERS_MAX])
        self._emit(
            RequestFaultApplied(
                rule.id, api_name(subject.api), *texts, rule.effect, uses.applied, caused_by=fault_cause(rule.id)
            )
        )

    # ---- effects ----------------------------------------------------------------------------------------------

    async def _apply(self, rule: HeldRequestFault, subject: _Subject, handler: Handler) -> KafkaMessage | None:
        request, context = subject.request, subject.context
        match rule.effect:
            case "error":
                return await self._with_error(rule, subject, handler)
            case "delay_before":
                await self._runtime.sleep(rule.delay_ms)
            case "drop_request" | "hang":
                raise Unanswered(for_good=rule.effect == "hang")
            case "close":
                raise RequestRefused("a request fault closes the connection")
            case "corrupt":
                return await handler(corrupt_produced(request, subject.selection(rule)), context)
        return await self._after(rule, subject, await handler(request, context))

    async def _after(
        self, rule: HeldRequestFault, subject: _Subject, response: KafkaMessage | None
    ) -> KafkaMessage | None:
        """Apply a rule's effect to the response: delay it, drop it or change it."""
        match rule.effect:
            case "delay_after":
                await self._runtime.sleep(rule.delay_ms)
            case "drop_response":
                raise Unanswered() if rule.keep_open else RequestRefused("a request fault drops the response")
            case "truncate":
                subject.context.truncated = True
            case "throttle" if response is not None:
                subject.context.muted_ms = max(subject.context.muted_ms, rule.throttle_ms)
                return throttled(response, rule.throttle_ms)
            case "stale" if isinstance(response, MetadataResponse):
                return self._with_stale_partitions(rule, response)
        return response

    async def _with_error(self, rule: HeldRequestFault, subject: _Subject, handler: Handler) -> KafkaMessage | None:
        """Process the request, except for the partitions or groups that the rule selects.

        For the selected partitions or groups, the response contains the rule's error.
        """
        request, context, error = subject.request, subject.context, KAFKA_ERRORS[rule.error]
        if subject.api is ApiKey.FETCH and error not in _SESSION_ERRORS:
            fetched = await handler(request, context)
            assert isinstance(fetched, FetchResponse)
            return refuse_fetched(fetched, subject.rows(rule), error)
        if subject.api is ApiKey.METADATA:
            metadata = await handler(request, context)
            assert isinstance(metadata, MetadataResponse)
            return refuse_metadata(metadata, subject.selection(rule), rule.partition, error)
        part = split(request, subject.selection(rule))
        refused = refuse(part, error)
        if subject.api is ApiKey.PRODUCE and int(request.acks) == 0:
            # A client with acks=0 expects no response, so close the connection, as Kafka does, to signal the error.
            raise RequestRefused(f"a request fault refuses records with {rule.error}")
        if part.rest is None or part.rows is None:
            return refused
        served = await handler(part.rest, context)
        return refused if served is None else merge(served, refused, part.rows)

    def _corrupt_fetched(self, subject: _Subject, response: FetchResponse) -> FetchResponse:
        """Corrupt a fetched batch if a rule selects one.

        A response without records does not count as an application of the rule.
        """
        found: list[FetchResponse] = []

        def admits(rule: HeldRequestFault) -> bool:
            if not _needs_records(rule, subject.api) or not subject.is_selected_by(rule):
                return False
            damaged = corrupt_fetched(response, subject.rows(rule))
            found[:] = [] if damaged is None else [damaged]
            return damaged is not None

        return found[0] if self._due(subject, admits) is not None else response

    def _with_stale_partitions(self, rule: HeldRequestFault, response: MetadataResponse) -> MetadataResponse:
        """Return a Metadata response with the leaders and ISRs from the time when the rule was added.

        Topics created later are omitted.
        """
        known = self._stale[rule.id]
        topics = []
        for topic in response.topics:
            if topic.name is not None and selects_partition(rule, topic.name, NO_PARTITION):
                before = {each.partition: each for each in known.get(topic.name, ())}
                rows = [_as_before(row, before.get(row.partition_index)) for row in topic.partitions]
                error = topic.error_code if before else ErrorCode.unknown_topic_or_partition
                topic = msgspec.structs.replace(topic, error_code=error, partitions=rows if before else ())
            topics.append(topic)
        return msgspec.structs.replace(response, topics=topics)


def _needs_records(rule: HeldRequestFault, api: ApiKey) -> bool:
    return rule.effect == "corrupt" and api is ApiKey.FETCH


def _as_before(row: MetadataResponsePartition, before: PartitionMetadata | None) -> MetadataResponsePartition:
    if before is None:
        return row
    return MetadataResponsePartition(
        ErrorCode.none if before.leader >= 0 else ErrorCode.leader_not_available,
        before.partition,
        before.leader,
        before.leader_epoch,
        before.replicas,
        before.isr,
        offline_replicas=before.offline_replicas,
    )


class _Subject:
    """A request in the form that is compared with the rules of request faults.

    Its partitions, groups and ids are computed when a rule first needs them.
    """

    def __init__(
        self,
        request: KafkaMessage,
        api: ApiKey,
        context: RequestContext,
        topic_name: Callable[[KafkaUuid], str | None],
        fetched: SessionPartitions,
    ) -> None:
        self.request = request
        self.api = api
        self.context = context
        self._topic_name = topic_name
        self._fetched = fetched
        self._found: Subject | None = None
        self._fetched_rows: Sequence[FetchedRow] | None = None

    def is_selected_by(self, rule: HeldRequestFault) -> bool:
        context, version = self.context, version_of(self.request)
        if not may_match(rule, self.api, version, context.client_id, context.listener, str(context.principal)):
            return False
        if rule.effect == "throttle" and version < (throttle_since(self.api) or 0):
            return False
        if self.api is ApiKey.METADATA and self.subject.partitions == ():
            # This Metadata request asks only for brokers, so rules for topics do not apply.
            return rule.effect not in ("error", "stale") and not rule.topic
        return selects(rule, self.subject)

    @property
    def subject(self) -> Subject:
        if self._found is None:
            self._found = subject_of(self.request, self.api, self._topic_name)
            if self.api is ApiKey.FETCH:
                partitions = tuple((self._name(row), row.partition) for row in self.fetched)
                self._found = self._found._replace(partitions=partitions)
        return self._found

    @property
    def fetched(self) -> Sequence[FetchedRow]:
        if self._fetched_rows is None:
            self._fetched_rows = self._fetched(self.request)
        return self._fetched_rows

    def _name(self, row: FetchedRow) -> str:
        return row.topic or self._topic_name(row.topic_id) or ""

    def rows(self, rule: HeldRequestFault) -> list[FetchedRow]:
        """Return the partitions of a Fetch request that a rule selects."""
        return [row for row in self.fetched if selects_partition(rule, self._name(row), row.partition)]

    def selection(self, rule: HeldRequestFault) -> Callable[[Any, int | None], bool]:
        """Return a function that decides which parts of the request the rule selects: (topic, partition), or a
        group.
        """

        def is_selected(row: Any, partition: int | None) -> bool:
            if self.api in _NAMED_BY_GROUP or hasattr(row, "group_id"):
                key = str(getattr(row, "group_id", row))
                return selects(rule, Subject(None, (key,), (key,)))
            name = name_of(row, self._topic_name)
            return selects_partition(rule, name, NO_PARTITION if partition is None else partition)

        return is_selected

    def text(self, rule: HeldRequestFault) -> str:
        """Return, for the journal, the first partition, group or id in the request that the rule selects."""
        subject = self.subject
        for topic, partition in subject.partitions or ():
            if selects_partition(rule, topic, partition):
                return topic if partition == NO_PARTITION else f"{topic}-{partition}"
        return next(iter((*subject.groups, *subject.transactional_ids)), "")


_NAMED_BY_GROUP = (ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS)
