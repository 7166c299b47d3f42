"""Eligible leader replicas: replicas that can lead if no ISR member can (KIP-966, here in ZooKeeper mode).

While the ISR is smaller than min.insync.replicas, no further record is committed. A replica that leaves the ISR during
that time still has every committed record: it is eligible, and stays so until the ISR is large enough again. If the
last member of the ISR fails, Kafka waits for it and makes it leader, whatever records it has lost. In zabka, an
eligible replica becomes leader immediately, and an election among eligible replicas is clean. A broker that returns
without its records is no longer eligible: it does not report an intact log, as it would after a clean shutdown or a
kill. If such a broker is in the ISR, it is doubtful, and eligible replicas take precedence over it.

The state also contains a broker epoch. When the state was written, the controller had handled every registration up to
that epoch. This is not the highest epoch that the controller knew, because a broker may register earlier and be handled
later.

Eligibility depends on the configuration, so the zxid of the transaction that wrote the configuration is stored with the
eligible replicas. After another write to the configuration, a leader may have committed with a lower minimum, and the
replicas no longer count as eligible. Conversely, a leader may not have received a raised minimum for as long as its
session timeout, so no replica becomes eligible during that time. If brokers are configured with different defaults,
leader and controller each use their own default, as in Kafka, and eligibility cannot be relied on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from zabka.controller.context import ControllerContext
from zabka.controller.topic_configs import TopicConfigs
from zabka.journal.events import TopicPartition
from zabka.kafka.ports import NO_LEADER
from zabka.kafka.zk.znodes import LeaderAndIsr

_NOT_NOTED = -1


def with_isr(state: LeaderAndIsr, isr: Sequence[int]) -> LeaderAndIsr:
    """Return the state with another ISR.

    Members that leave the ISR are added to the eligible replicas, except doubtful ones. Replicas that turn out not to
    be eligible are removed when the state is written.
    """
    eligible = [b for b in dict.fromkeys((*state.eligible, *state.isr)) if b not in isr and b not in state.doubtful]
    changed = state._replace(isr=tuple(isr), eligible=tuple(eligible))
    if not eligible:
        return without_eligible(changed)
    return changed._replace(doubtful=tuple([b for b in state.doubtful if b in isr]))


def without_eligible(state: LeaderAndIsr) -> LeaderAndIsr:
    """Return the state without eligible replicas, as in Kafka."""
    return state._replace(eligible=(), eligible_by_zxid=_NOT_NOTED, doubtful=(), broker_epoch_seen=_NOT_NOTED)


def not_eligible(state: LeaderAndIsr, brokers: Collection[int]) -> LeaderAndIsr:
    """Return the state without these brokers among the eligible replicas."""
    left = tuple(b for b in state.eligible if b not in brokers)
    return state._replace(eligible=left) if left else without_eligible(state)


def given_way(state: LeaderAndIsr, returned: Collection[int]) -> LeaderAndIsr:
    """Return the state after brokers returned, possibly without their records.

    The returned brokers are no longer eligible. They do not lead if other replicas are eligible, because the eligible
    replicas have every committed record.
    """
    left = not_eligible(state, returned)
    if not left.eligible:
        return left
    doubtful = tuple(b for b in state.isr if b in state.doubtful or b in returned)
    return left._replace(leader=NO_LEADER if state.leader in doubtful else state.leader, doubtful=doubtful)


def trusted(state: LeaderAndIsr) -> list[int]:
    """Return the ISR without doubtful members, that is, members that may have lost records."""
    return [b for b in state.isr if b not in state.doubtful]


class Eligibility(Protocol):
    """Decides which replicas are eligible leaders. Both methods raise SessionExpired and ControllerMoved."""

    async def settle(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Return the states to write, without replicas that are no longer eligible."""
        ...

    async def confirm(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Return these states, which were read from ZooKeeper, without replicas that are no longer eligible."""
        ...


class NoEligibleReplicas:
    """Eligibility under certain historical behaviours (`Historical`): no replica is eligible.

    Under these behaviours, either only the last ISR member can lead, or records are committed while the ISR is too
    small.
    """

    async def settle(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Return the states without eligible replicas, as in Kafka."""
        return {partition: without_eligible(state) for partition, state in states.items()}

    confirm = settle


class EligibleReplicas:
    """Decides, from the topics' configurations, which replicas are eligible."""

    def __init__(self, context: ControllerContext, configs: TopicConfigs) -> None:
        self._context = context
        self._configs = configs

    async def settle(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Remove all eligible replicas if the ISR is large enough, else only those no longer assigned to the partition.

        Eligible replicas that were recorded under an earlier configuration are also removed.
        """
        minimums = await self._configs.minimums(_topics_with_eligible(states))
        settled = dict(states)
        for partition, state in states.items():
            if not state.eligible:
                continue
            replicas = self._context.replicas(partition)
            minimum = minimums.get(partition.topic)
            known = minimum is not None and state.eligible_by_zxid in (_NOT_NOTED, minimum.zxid)
            if minimum is None or not known or _enough(state, min(minimum.size, len(replicas))):
                settled[partition] = without_eligible(state)
                continue
            left = not_eligible(state, [b for b in state.eligible if b not in replicas])
            if left.eligible:
                seen = self._context.broker_epoch_seen
                left = left._replace(eligible_by_zxid=minimum.zxid, broker_epoch_seen=seen)
            settled[partition] = left
        return settled

    async def confirm(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Remove the eligible replicas of states recorded before the latest change of the topic's configuration."""
        topics = _topics_with_eligible(states)
        if not topics:
            return dict(states)
        self._configs.forget_minimums(topics)
        minimums = await self._configs.minimums(topics)
        confirmed: dict[TopicPartition, LeaderAndIsr] = {}
        for partition, state in states.items():
            minimum = minimums.get(partition.topic)
            still = minimum is not None and state.eligible_by_zxid == minimum.zxid
            confirmed[partition] = state if still else without_eligible(state)
        return confirmed


def _topics_with_eligible(states: Mapping[TopicPartition, LeaderAndIsr]) -> list[str]:
    return list(dict.fromkeys(partition.topic for partition, state in states.items() if state.eligible))


def _enough(state: LeaderAndIsr, minimum: int) -> bool:
    """Return whether the ISR is large enough to commit records that the eligible replicas do not have."""
    return len(trusted(state)) >= minimum
