"""Eligible leader replicas: who may lead where nobody in the ISR can (KIP-966, here in ZooKeeper mode).

While fewer are in sync than min.insync.replicas asks for, nothing more is committed.  A replica that leaves the ISR
then goes on having all that was committed: it is eligible, and stays so until enough are in sync again.  When the last
member of the ISR is gone, Kafka waits for it, and lets it lead whatever it has lost; here an eligible replica leads at
once, and an election among these is clean.  A broker that comes back without what it had (it does not say that its log
is intact, as after a clean stop or a kill) is eligible no more; in the ISR it is doubtful, and gives way as long as
anybody is eligible.

Whose return nobody has dealt with is told by a broker epoch up to which the controller had dealt with all when it
wrote.  That is not the highest that it knew: another one may have returned before, and be dealt with later.

What a replica may be eligible for hangs on the configuration, so the transaction that wrote it is noted beside them:
once that is another one, a leader may have committed by a lower minimum, and they count no more.  The other way round a
leader may not have heard of a raised minimum for as long as its session may last, so until it has, nobody becomes
eligible.  Where brokers are configured with different defaults, leader and controller each go by their own, as in
Kafka, and eligibility cannot be relied on.
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
    """The state with another ISR; whoever leaves it may be eligible, which is judged when the state is written."""
    eligible = [b for b in dict.fromkeys((*state.eligible, *state.isr)) if b not in isr and b not in state.doubtful]
    changed = state._replace(isr=tuple(isr), eligible=tuple(eligible))
    if not eligible:
        return with_nobody_eligible(changed)
    return changed._replace(doubtful=tuple([b for b in state.doubtful if b in isr]))


def with_nobody_eligible(state: LeaderAndIsr) -> LeaderAndIsr:
    """The state as Kafka knows it."""
    return state._replace(eligible=(), eligible_by_zxid=_NOT_NOTED, doubtful=(), broker_epoch_seen=_NOT_NOTED)


def not_eligible(state: LeaderAndIsr, brokers: Collection[int]) -> LeaderAndIsr:
    """The state with those eligible who are not among the brokers."""
    left = tuple(b for b in state.eligible if b not in brokers)
    return state._replace(eligible=left) if left else with_nobody_eligible(state)


def given_way(state: LeaderAndIsr, returned: Collection[int]) -> LeaderAndIsr:
    """The state after some brokers came back, perhaps without what they had.

    They are eligible no more, and do not lead where others are: those have all that was committed.
    """
    left = not_eligible(state, returned)
    if not left.eligible:
        return left
    doubtful = tuple(b for b in state.isr if b in state.doubtful or b in returned)
    return left._replace(leader=NO_LEADER if state.leader in doubtful else state.leader, doubtful=doubtful)


def trusted(state: LeaderAndIsr) -> list[int]:
    """The ISR without its doubtful members."""
    return [b for b in state.isr if b not in state.doubtful]


class Eligibility(Protocol):
    """Judges who is eligible.  Both raise SessionExpired and ControllerMoved."""

    async def settle(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """States that are about to be written, with those eligible who are."""
        ...

    async def confirm(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """States as they were read, with those eligible who still are."""
        ...


class NobodyEligible:
    """Where the last in sync alone may lead, or more is committed below the minimum (`Historical`)."""

    async def settle(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Kafka's states."""
        return {partition: with_nobody_eligible(state) for partition, state in states.items()}

    confirm = settle


class EligibleReplicas:
    """By the topics' configurations."""

    def __init__(self, context: ControllerContext, configs: TopicConfigs) -> None:
        self._context = context
        self._configs = configs

    async def settle(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """Nobody where enough are in sync; else replicas of the partition, by one configuration."""
        minimums = await self._configs.minimums(_topics_with_eligible(states))
        settled = dict(states)
        for partition, state in states.items():
            if not state.eligible:
                continue
            replicas = self._context.replicas(partition)
            minimum = minimums.get(partition.topic)
            known = minimum is not None and state.eligible_by_zxid in (_NOT_NOTED, minimum.zxid)
            if minimum is None or not known or _enough(state, min(minimum.size, len(replicas))):
                settled[partition] = with_nobody_eligible(state)
                continue
            left = not_eligible(state, [b for b in state.eligible if b not in replicas])
            if left.eligible:
                seen = self._context.broker_epoch_seen
                left = left._replace(eligible_by_zxid=minimum.zxid, broker_epoch_seen=seen)
            settled[partition] = left
        return settled

    async def confirm(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, LeaderAndIsr]:
        """By the configuration as it is now."""
        topics = _topics_with_eligible(states)
        if not topics:
            return dict(states)
        self._configs.forget_minimums(topics)
        minimums = await self._configs.minimums(topics)
        confirmed: dict[TopicPartition, LeaderAndIsr] = {}
        for partition, state in states.items():
            minimum = minimums.get(partition.topic)
            still = minimum is not None and state.eligible_by_zxid == minimum.zxid
            confirmed[partition] = state if still else with_nobody_eligible(state)
        return confirmed


def _topics_with_eligible(states: Mapping[TopicPartition, LeaderAndIsr]) -> list[str]:
    return list(dict.fromkeys(partition.topic for partition, state in states.items() if state.eligible))


def _enough(state: LeaderAndIsr, minimum: int) -> bool:
    """May more be committed than those eligible have?"""
    return len(trusted(state)) >= minimum
