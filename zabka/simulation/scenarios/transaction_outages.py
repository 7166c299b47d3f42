"""Scripts of transaction outages, each run with and without a former behaviour of Kafka, an unsafe setting or a bug.

In every script, the broker `third` is the coordinator of all transactional ids, because `__transaction_state` has only
one partition, and the broker `first` is the controller.
"""

from __future__ import annotations

from zabka.simulation.scenarios.kafka_steps import Cast, Delay, Produce, Settled, State, Topic
from zabka.simulation.scenarios.scenario import AnyWorldStep, WorldScenario
from zabka.simulation.scenarios.transaction_steps import (
    EndTransaction,
    HeldBack,
    KillProducer,
    MarkersInOrder,
    ReadCommitted,
    SendInTransaction,
    SendLate,
    StartProducer,
    TransactionIs,
)
from zabka.simulation.scenarios.world_steps import Cut, Heal, Hold, Kill, Pause, Restart, Wait

VERIFICATION = "transaction.partition.verification.enable"
UNCLEAN = "unclean.leader.election.enable"
ONE_COORDINATOR = {"transaction.state.log.num.partitions": "1"}
OK = ("ok",)
COORDINATED_BY_THIRD = Topic("__transaction_state", (("third", "first", "second"),), {"cleanup.policy": "compact"})
CAST: tuple[AnyWorldStep, ...] = (Cast(), COORDINATED_BY_THIRD, Topic("orders", (("second", "first"),)))

TRANSACTION_OUTAGES: tuple[WorldScenario, ...] = (
    WorldScenario(
        "zombie-producer",
        "A producer that was replaced sends another record",
        "A producer that starts with a transactional id fences the earlier one: its transaction is aborted, and its "
        "records are rejected.",
        "KIP-98",
        "0.11.0.0",
        subjects=("transactions",),
        brokers=3,
        keys=ONE_COORDINATOR,
        steps=(
            *CAST,
            StartProducer("old", "payments"),
            SendInTransaction("old", "orders-0"),
            StartProducer("new", "payments"),
            TransactionIs("payments", "Empty"),
            SendInTransaction("new", "orders-0"),
            SendInTransaction("old", "orders-0", expect=("invalid_producer_epoch",)),
            EndTransaction("old", commit=True, expect=("producer_fenced",)),
            EndTransaction("new", commit=True),
            ReadCommitted("orders-0", ("new:1",)),
        ),
    ),
    WorldScenario(
        "producer-killed",
        "A producer dies in its transaction",
        "The coordinator aborts a transaction after its timeout. Until then read_committed consumers wait, and "
        "other consumers read its records.",
        "KIP-98",
        "works as designed",
        subjects=("transactions",),
        brokers=3,
        keys=ONE_COORDINATOR,
        steps=(
            *CAST,
            StartProducer("shop", "payments"),
            SendInTransaction("shop", "orders-0", 3),
            KillProducer("shop"),
            Produce("orders-0", 2, expect=OK),
            HeldBack("orders-0"),
            ReadCommitted("orders-0", (), stuck=True),
            TransactionIs("payments", "CompleteAbort", within_ms=90_000),
            ReadCommitted("orders-0", ("orders-0:1", "orders-0:2")),
        ),
    ),
    WorldScenario(
        "coordinator-fails-over",
        "A coordinator dies after it has decided and before it has sent the markers",
        "The next coordinator reads the decision from __transaction_state, and sends the markers.",
        "KIP-98",
        "works as designed",
        subjects=("transactions",),
        brokers=3,
        keys=ONE_COORDINATOR,
        steps=(
            *CAST,
            StartProducer("shop", "payments"),
            SendInTransaction("shop", "orders-0", 2),
            # The third broker's transaction markers do not arrive at the second broker, which is the partition's
            # leader.
            Cut("third", ("second",)),
            EndTransaction("shop", commit=True),
            Wait(500),
            Kill(("third",)),
            Heal(),
            State("__transaction_state-0", leader="first"),
            ReadCommitted("orders-0", ("shop:1", "shop:2")),
            TransactionIs("payments", "CompleteCommit"),
        ),
    ),
    WorldScenario(
        "late-produce",
        "A record arrives after its transaction was aborted, and hangs",
        "The leader asks the coordinator before the first record of a transaction, so that a late record begins none.",
        "KAFKA-12671, 14402, KIP-890",
        "3.6",
        subjects=("transactions", "network"),
        brokers=3,
        keys=ONE_COORDINATOR,
        bug={VERIFICATION: "false"},
        shows="read_committed consumers wait at offset 2 of orders-0",
        steps=(
            *CAST,
            StartProducer("shop", "payments"),
            SendInTransaction("shop", "orders-0"),
            Delay("shop", ("second",), 3_000),
            SendLate("shop", "orders-0"),
            Wait(1_000),
            EndTransaction("shop", commit=False),
            TransactionIs("payments", "CompleteAbort"),
            Wait(3_000),
            Produce("orders-0", 3, expect=OK),
            ReadCommitted("orders-0", ("orders-0:1", "orders-0:2", "orders-0:3"), within_ms=20_000),
        ),
    ),
    WorldScenario(
        "half-a-transaction",
        "An unclean election loses one partition of a transaction",
        "A transaction waits for the replica that has its records, and consumers read all of it.",
        "KIP-98, KIP-106",
        "works as designed",
        subjects=("transactions", "election"),
        brokers=4,
        keys=ONE_COORDINATOR,
        bug={UNCLEAN: "true"},
        shows="read_committed consumers are at offset 1 of orders-0, with no record, not shop:1",
        steps=(
            Cast(others=("second", "third", "fourth")),
            COORDINATED_BY_THIRD,
            Topic("orders", (("second", "fourth"), ("third", "first"))),
            StartProducer("shop", "payments"),
            Cut("fourth", ("second",)),
            SendInTransaction("shop", "orders-0"),
            SendInTransaction("shop", "orders-1"),
            State("orders-0", isr=("second",)),
            Kill(("second",)),
            Heal(),
            Wait(9_000),
            EndTransaction("shop", commit=True),
            ReadCommitted("orders-1", ("shop:2",)),
            Restart(("second",)),
            TransactionIs("payments", "CompleteCommit"),
            Settled(),
            ReadCommitted("orders-0", ("shop:1",)),
        ),
    ),
    WorldScenario(
        "expired-transactional-id",
        "A transactional id expires",
        "Only an id without a transaction expires. Its producer gets an error and starts again.",
        "KIP-98",
        "works as designed",
        subjects=("transactions",),
        brokers=3,
        keys={
            **ONE_COORDINATOR,
            "transactional.id.expiration.ms": "5000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "2000",
        },
        steps=(
            *CAST,
            StartProducer("reports", "reports"),
            SendInTransaction("reports", "orders-0"),
            StartProducer("shop", "payments"),
            SendInTransaction("shop", "orders-0"),
            EndTransaction("shop", commit=True),
            Wait(10_000),
            SendInTransaction("shop", "orders-0", expect=("invalid_producer_id_mapping",)),
            EndTransaction("reports", commit=True),
            StartProducer("again", "payments"),
            SendInTransaction("again", "orders-0"),
            EndTransaction("again", commit=True),
            ReadCommitted("orders-0", ("reports:1", "shop:1", "again:1")),
        ),
    ),
    WorldScenario(
        "kafka-9144",
        "A marker of an earlier coordinator arrives last",
        "A leader remembers the coordinator epoch of a producer's last marker, and rejects markers of earlier "
        "coordinators.",
        "KAFKA-9144",
        "2.4.1",
        subjects=("transactions",),
        brokers=3,
        keys={**ONE_COORDINATOR, "producer.id.expiration.check.interval.ms": "1000"},
        steps=(
            *CAST,
            StartProducer("shop", "payments"),
            SendInTransaction("shop", "orders-0"),
            Hold("third", "second", "WriteTxnMarkers"),
            EndTransaction("shop", commit=False),
            Wait(500),
            Pause("third"),
            State("__transaction_state-0", leader="first"),
            TransactionIs("payments", "CompleteAbort"),
            Heal(),
            Wait(1_000),
            MarkersInOrder("orders-0"),
        ),
    ),
)
