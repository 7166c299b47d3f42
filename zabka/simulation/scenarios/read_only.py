"""Scripts of read-only mode (readonlymode.enabled): which requests a peer without a quorum accepts and rejects."""

from __future__ import annotations

from zabka.simulation.scenarios.scenario import WorldScenario
from zabka.simulation.scenarios.world_steps import (
    Agree,
    Ask,
    Becomes,
    Begin,
    Cut,
    Fired,
    Heal,
    Join,
    Kill,
    Restart,
    Serving,
    SessionIs,
    Wait,
    WorldSteps,
)

KEYS = {"readonlymode.enabled": "true", "localSessionsEnabled": "true"}
UPGRADING = {**KEYS, "localSessionsUpgradingEnabled": "true"}
MAJORITY = ("peer-1", "peer-2")
REFUSED = ("NotReadOnly",)
CUT_OFF: tuple[WorldSteps, ...] = (Cut("peer-3", MAJORITY), Wait(6_000))
"""Steps that cut peer-3 off until it has given up its leader and then looked for another leader for two seconds."""
READS_ON: tuple[WorldSteps, ...] = (
    Join("reader", (3,), read_only=True),
    Becomes("reader", "connected read-only"),
    SessionIs("reader", "local"),
)

READ_ONLY_SERVICE: tuple[WorldScenario, ...] = (
    WorldScenario(
        "read-only-minority",
        "A minority that serves reads",
        "It serves committed data, rejects requests that need a quorum, and accepts writes once its leader is back.",
        "readonlymode.enabled, ZOOKEEPER-704",
        subjects=("sessions", "network"),
        peer_keys=KEYS,
        steps=(
            Join("maker", (1, 2)),
            Ask("maker", "create", "/a", "1"),
            *CUT_OFF,
            Join("writer", (1, 2)),
            *READS_ON,
            Ask("reader", "get", "/a", "", ("1",)),
            Ask("reader", "watch", "/a", "", ("yes",)),
            *(
                Ask("reader", operation, path, "2", REFUSED)
                for operation, path in (
                    ("create", "/b"),
                    ("create_ephemeral", "/e"),
                    ("create_both", "/m"),
                    ("set", "/a"),
                    ("delete", "/a"),
                    ("restrict", "/a"),
                    ("sync", "/a"),
                )
            ),
            Ask("writer", "set", "/a", "2", ("ok",)),
            Wait(2_000),
            Ask("reader", "get", "/a", "", ("1",)),
            Fired("reader", 0),
            Heal(),
            Serving(),
            Becomes("reader", "connected"),
            SessionIs("reader", "local"),
            Ask("reader", "get", "/a", "", ("2",)),
            Fired("reader", 1),
            Ask("reader", "create", "/b", "", ("/b",)),
            Ask("reader", "create_ephemeral", "/e", "", ("EphemeralOnLocalSession",)),
            Agree("children", "/", "a b zookeeper"),
            Agree("get", "/a", "2"),
        ),
    ),
    WorldScenario(
        "read-only-moves-on",
        "A client stays with a minority although there is a leader",
        "The client looks for a leader and moves to it with a new session; no other server knows the old session.",
        "ClientCnxn.pingRwServer",
        subjects=("sessions", "network"),
        peer_keys=UPGRADING,
        steps=(
            Join("writer", (1, 2)),
            Ask("writer", "create", "/a", "1"),
            Cut("client-reader", ("peer-1",)),
            *CUT_OFF,
            Join("reader", (1, 3), read_only=True),
            Becomes("reader", "connected read-only"),
            SessionIs("reader", "local"),
            Ask("reader", "set", "/a", "2", REFUSED),
            Heal(("client-reader",)),
            Becomes("reader", "connected"),
            SessionIs("reader", "local"),
            Ask("reader", "create_ephemeral", "/e", "", ("/e",)),
            SessionIs("reader", "global"),
            Heal(),
            Serving(),
            Agree("exists", "/e", "yes"),
            Ask("reader", "close"),
            Agree("exists", "/e", "no"),
        ),
    ),
    WorldScenario(
        "read-only-global-session",
        "A global session connects to a minority",
        "Only a leader can confirm the session, so the minority rejects it, and it is still alive at the leader.",
        "ReadOnlyZooKeeperServer",
        subjects=("sessions", "network"),
        peer_keys=UPGRADING,
        steps=(
            Cut("client-owner", ("peer-2",)),
            Join("owner", (2, 3), 20_000, read_only=True),
            Ask("owner", "create_ephemeral", "/e", "", ("/e",)),
            SessionIs("owner", "global"),
            *CUT_OFF,
            # The client tries to connect to peer-2 without success, and then connects to peer-3 again.
            Wait(2_500),
            Becomes("owner", "suspended"),
            Heal(("client-owner",)),
            Becomes("owner", "connected"),
            SessionIs("owner", "global"),
            Ask("owner", "create", "/mine", "", ("/mine",)),
            Heal(),
            Serving(),
            Agree("exists", "/e", "yes"),
        ),
    ),
    WorldScenario(
        "read-only-restarts",
        "Only a read-only server is left, and it restarts",
        "Read-only service starts again from the data on disk, writes nothing, and ends once there is a leader.",
        "ZOOKEEPER-3526",
        subjects=("sessions", "network"),
        snap_count=4,
        peer_keys=KEYS,
        steps=(
            Join("writer"),
            *(Ask("writer", "create", f"/n{number}") for number in range(6)),
            Kill(MAJORITY, power_loss=True),
            Wait(6_000),
            *READS_ON,
            Ask("reader", "exists", "/n5", "", ("yes", "no")),
            Begin("reader", "create", "/half"),
            Kill(("peer-3",)),
            Restart(("peer-3",)),
            Becomes("reader", "suspended"),
            Becomes("reader", "connected read-only"),
            SessionIs("reader", "local"),
            Ask("reader", "create", "/half", "", REFUSED),
            Restart(),
            Serving(),
            Becomes("reader", "connected"),
            Agree("children", "/", "n0 n1 n2 n3 n4 n5 zookeeper"),
        ),
    ),
)
