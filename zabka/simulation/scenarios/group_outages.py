"""Scripts of outages of consumer groups.  The broker `third` coordinates all groups."""

from __future__ import annotations

from zabka.simulation.scenarios.group_steps import (
    CommitOffsets,
    Committed,
    Consume,
    JoinGroup,
    PauseMember,
    ResumeMember,
)
from zabka.simulation.scenarios.kafka_steps import Cast, Produce, Topic
from zabka.simulation.scenarios.scenario import WorldScenario

OK = ("ok",)
COORDINATED_BY_THIRD = Topic("__consumer_offsets", (("third", "first", "second"),), {"cleanup.policy": "compact"})

GROUP_OUTAGES: tuple[WorldScenario, ...] = (
    WorldScenario(
        "member-paused",
        "A paused member of a consumer group commits after the rebalance",
        "The coordinator removes a member whose session has expired, and rejects its late commit. The next member "
        "reads the uncommitted records again.",
        "KIP-62",
        "works as designed",
        subjects=("groups",),
        brokers=3,
        keys={"offsets.topic.num.partitions": "1"},
        steps=(
            Cast(),
            COORDINATED_BY_THIRD,
            Topic("orders", (("second", "first"),)),
            Produce("orders-0", 2, expect=OK),
            JoinGroup("slow", "billing", ("orders",)),
            Consume("slow", "orders-0", ("orders-0:1", "orders-0:2")),
            PauseMember("slow"),
            JoinGroup("fast", "billing", ("orders",)),
            Consume("fast", "orders-0", ("orders-0:1", "orders-0:2")),
            Produce("orders-0", 1, expect=OK),
            Consume("fast", "orders-0", ("orders-0:3",)),
            CommitOffsets("fast"),
            ResumeMember("slow"),
            CommitOffsets("slow", expect=("unknown_member_id",)),
            Committed("billing", "orders-0", 3),
        ),
    ),
)
