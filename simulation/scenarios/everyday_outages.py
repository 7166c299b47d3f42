"""What goes wrong every week and is nobody's bug: a follower that lags, a leader killed, a quorum lost, a link cut."""

from __future__ import annotations

from simulation.scenarios.kafka_controller_outages import LED_BY_SECOND, OPENED, PEERS
from simulation.scenarios.kafka_steps import Cast, Elect, Produce, Reassign, Reigns, Settled, State
from simulation.scenarios.scenario import WorldScenario
from simulation.scenarios.world_steps import Agree, Ask, Begin, Cut, Heal, Join, Kill, Restart, Serving, Wait

OK = ("ok",)
LOST = "ConnectionLoss"

EVERYDAY_OUTAGES: tuple[WorldScenario, ...] = (
    WorldScenario(
        "follower-lags",
        "A follower falls behind, and comes back",
        "Who lags leaves the ISR, so that nobody waits for it for ever; who has caught up joins it again.",
        "",
        "",
        brokers=3,
        steps=(
            *OPENED,
            Cut("third", ("second",)),
            Produce("orders-0", expect=OK),
            State("orders-0", leader="second", isr=("second",)),
            Produce("orders-0", 2, expect=OK),
            Heal(),
            State("orders-0", leader="second", isr=("second", "third")),
            Settled(),
        ),
    ),
    WorldScenario(
        "zab-leader-killed",
        "The ensemble's leader is killed while clients write",
        "What was acknowledged is in the next leader's history; what was under way is on every peer or on none.",
        "",
        "",
        steps=(
            Join("a", (1, 2), 20_000),
            Ask("a", "create", "/x", "old", ("/x",)),
            *(Begin("a", "create_both", f"/w{number}") for number in range(4)),
            Wait(3),
            Kill(("peer-3",)),
            Serving(),
            Ask("a", "set", "/x", "new", ("ok", LOST)),
            Ask("a", "set", "/x", "new", OK),
            Restart(),
            Serving(),
            Agree("pairs", "/", "whole"),
            Agree("get", "/x", "new"),
        ),
    ),
    WorldScenario(
        "quorum-lost",
        "Two of three peers are gone, and then a partition's leader",
        "Without a quorum leaders go on serving, and nobody is elected; with it the elections are made up for.",
        "",
        "",
        brokers=3,
        steps=(
            *OPENED,
            Kill(("peer-1", "peer-2")),
            Wait(3_000),
            Produce("orders-0", 3, expect=OK),
            Kill(("second",)),
            Wait(9_000),
            State("orders-0", leader="second"),
            Restart(("peer-1",)),
            Serving(),
            State("orders-0", leader="third"),
            Produce("orders-0", expect=OK),
            Restart(),
            Settled(),
        ),
    ),
    WorldScenario(
        "preferred-election",
        "A leader that was killed comes back, and does not lead",
        "Who comes back follows; an election of the preferred leader gives it its partitions again, and loses nothing.",
        "",
        "",
        brokers=3,
        steps=(
            *OPENED,
            Kill(("second",)),
            State("orders-0", leader="third"),
            Produce("orders-0", 3, expect=OK),
            Restart(("second",)),
            State("orders-0", leader="third", isr=("second", "third")),
            Wait(1_000),
            Elect("orders-0"),
            State("orders-0", leader="second", isr=("second", "third")),
            Produce("orders-0", expect=OK),
            Settled(),
        ),
    ),
    WorldScenario(
        "cut-one-way",
        "A leader hears the ensemble, and is not heard",
        "A session needs to be heard: the leader loses its own, and another one leads.",
        "",
        "",
        brokers=3,
        steps=(
            *OPENED,
            Cut("second", PEERS, both_ways=False),
            State("orders-0", leader="third"),
            # Who has not yet heard of the new leader asks the old one, in vain.
            Produce("orders-0", 3),
            Heal(),
            State("orders-0", leader="third", isr=("second", "third")),
            Produce("orders-0", expect=OK),
            Settled(),
        ),
    ),
    WorldScenario(
        "reassignment-interrupted",
        "The controller is killed in the middle of a reassignment",
        "What is to be moved is written down before the move begins, so that the next controller ends it.",
        "",
        "",
        brokers=4,
        steps=(
            Cast(others=("second", "third", "fourth")),
            LED_BY_SECOND,
            Produce("orders-0", 5, expect=OK),
            Cut("fourth", ("second",)),
            Reassign("orders-0", ("third", "fourth")),
            Wait(500),
            Kill(("first",)),
            Reigns("first", "next"),
            Heal(),
            State("orders-0", leader="third", isr=("third", "fourth")),
            Produce("orders-0", 2, expect=OK),
            Restart(("first",)),
            Settled(),
        ),
    ),
)
