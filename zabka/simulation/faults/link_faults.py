"""Link faults: cuts in one or both directions, for one node or half of the nodes, and slow links."""

from __future__ import annotations

from zabka.simulation.faults.nemesis import Nemesis, all_of

CLIENTS = ("writer", "watcher")
"""Client machines whose links to servers can be cut."""
PRIORITY_STEP_MS = 12
PRIORITY_LOWEST_MS = 400
PRIORITY_CHANGES = 3
LATE_WINDOW_MS = 700


def cut_one_way(nemesis: Nemesis) -> None:
    """Cut one direction of the link between two nodes."""
    source, target = _two_nodes(nemesis)
    nemesis.until_healed(nemesis.world.cut(source, target, both_ways=False))


def cut_both_ways(nemesis: Nemesis) -> None:
    """Cut both directions between two nodes."""
    source, target = _two_nodes(nemesis)
    nemesis.until_healed(nemesis.world.cut(source, target, both_ways=True))


def isolate(nemesis: Nemesis) -> None:
    """Cut one node off from all others."""
    name = nemesis.pick(nemesis.world.node_names())
    others = [other for other in nemesis.world.node_names() if other != name]
    nemesis.until_healed(all_of([nemesis.world.cut(name, other, both_ways=True) for other in others]))


def split_peers(nemesis: Nemesis) -> None:
    """Partition the ensemble into two groups."""
    names = nemesis.world.peer_names()
    size = nemesis.random.randrange(1, len(names)) if len(names) > 1 else 1
    left = names[:size]
    nemesis.until_healed(all_of([nemesis.world.cut(a, b, both_ways=True) for a in left for b in names[size:]]))


def delay(nemesis: Nemesis) -> None:
    """Delay one direction of the link between two nodes."""
    source, target = _two_nodes(nemesis)
    delay_ms = nemesis.random.randrange(5, 600)
    nemesis.until_healed(nemesis.world.delay(source, target, delay_ms))


def cut_client(nemesis: Nemesis) -> None:
    """Cut a client off from a server, in both directions or only from client to server."""
    client = nemesis.pick([name for name in CLIENTS if name in nemesis.world.clients])
    name = nemesis.pick(nemesis.world.peer_names())
    nemesis.until_healed(nemesis.world.cut(client, name, both_ways=nemesis.random.random() < 0.5))


def depose_leader(nemesis: Nemesis) -> None:
    """Cut the ensemble's leader off from all other peers, but not from its clients."""
    leader = nemesis.world.zab_leader()
    if leader is not None:
        others = [name for name in nemesis.world.peer_names() if name != leader.name]
        nemesis.until_healed(all_of([nemesis.world.cut(leader.name, other) for other in others]))


def flapping_follower(nemesis: Nemesis) -> None:
    """Make a follower leave and rejoin the ISR, while the leader's requests to the controller are delayed or reordered.

    In most cases the leader is killed at the end.
    """
    state = nemesis.world.record.state
    led = [
        p
        for p in state.partitions.values()
        if p.leader >= 0 and p.leader != state.controller_id and any(r != p.leader for r in p.replicas)
    ]
    if not led or state.controller_id < 0:
        return
    partition = led[nemesis.random.randrange(0, len(led))]
    followers = [replica for replica in partition.replicas if replica != partition.leader]
    leader, controller = f"broker-{partition.leader}", f"broker-{state.controller_id}"
    follower = f"broker-{followers[nemesis.random.randrange(0, len(followers))]}"
    lag_ms = nemesis.world.settings.replica_lag_time_max_ms
    back_ms = 3 * lag_ms // 2
    nemesis.until_healed(nemesis.world.cut(follower, leader), back_ms)
    # Delay the leader's request to add the returned follower to the ISR, so that the leader sends it again ...
    late_ms = nemesis.random.randrange(2 * lag_ms, 4 * lag_ms)
    nemesis.later(
        back_ms - 200, lambda: nemesis.until_healed(nemesis.world.delay(leader, controller, late_ms), LATE_WINDOW_MS)
    )
    # ... and the delayed request arrives after the follower has left the ISR again.
    nemesis.later(2 * lag_ms, lambda: nemesis.until_healed(nemesis.world.cut(follower, leader), 5 * lag_ms))
    if nemesis.random.random() < 0.7:
        dies_ms = 5 * lag_ms + nemesis.random.randrange(0, 2 * lag_ms)
        nemesis.later(dies_ms, lambda: nemesis.crash([leader], power_loss=False))


def swizzle_clog(nemesis: Nemesis) -> None:
    """Cut random links between peers one after another, and heal them in another order (FoundationDB's swizzle)."""
    clogged = [link for link in _links(nemesis.world.peer_names()) if nemesis.random.random() < 0.5]
    lasts_ms = nemesis.draw_lasts_ms()
    for position, (source, target) in enumerate(_shuffled(nemesis, clogged)):
        begins_ms = 1 + lasts_ms * position // (2 * len(clogged))
        ends_ms = lasts_ms + nemesis.random.randrange(0, lasts_ms)

        def clog(source: str = source, target: str = target, for_ms: int = ends_ms - begins_ms) -> None:
            nemesis.until_healed(nemesis.world.cut(source, target, both_ways=False), for_ms)

        nemesis.later(begins_ms, clog)


def priorities(nemesis: Nemesis) -> None:
    """Delay every link between peers. A link's delay grows with its rank in a random order of the links.

    A few times, a randomly chosen link is moved to the end of the order (probabilistic concurrency testing).
    """
    order = _shuffled(nemesis, _links(nemesis.world.peer_names()))
    ranked = {link: PRIORITY_STEP_MS * rank for rank, link in enumerate(order)}
    lasts_ms = nemesis.draw_lasts_ms()
    nemesis.until_healed(nemesis.world.prioritise(ranked), lasts_ms)
    for _ in range(PRIORITY_CHANGES):
        link = order[nemesis.random.randrange(0, len(order))] if order else None

        def demote(link: tuple[str, str] | None = link) -> None:
            if link is not None:
                nemesis.until_healed(nemesis.world.delay(*link, PRIORITY_LOWEST_MS))

        nemesis.later(nemesis.random.randrange(1, lasts_ms + 1), demote)


def _two_nodes(nemesis: Nemesis) -> tuple[str, str]:
    names = nemesis.world.node_names()
    first = nemesis.pick(names)
    return first, nemesis.pick([name for name in names if name != first] or _clients(nemesis))


def _clients(nemesis: Nemesis) -> list[str]:
    """Return the clients to cut off in a world with only one node: the writer or, without a writer, a test's
    programs.
    """
    if CLIENTS[0] in nemesis.world.clients:
        return [CLIENTS[0]]
    return [machine.name for machine in nemesis.world.services if machine.takes_faults]


def _links(names: list[str]) -> list[tuple[str, str]]:
    return [(source, target) for source in names for target in names if source != target]


def _shuffled(nemesis: Nemesis, links: list[tuple[str, str]]) -> list[tuple[str, str]]:
    keyed = [(nemesis.random.random(), link) for link in links]
    return [link for _, link in sorted(keyed)]
