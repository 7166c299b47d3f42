"""Node faults: crashes, power losses, pauses, slow disks, and controllers that lose their role unnoticed."""

from __future__ import annotations

from zabka.simulation.faults.nemesis import Nemesis, all_of


def crash_peer(nemesis: Nemesis) -> None:
    """Kill a peer (SIGKILL)."""
    nemesis.crash(nemesis.world.peer_names(), power_loss=False)


def crash_broker(nemesis: Nemesis) -> None:
    """Kill a broker (SIGKILL)."""
    nemesis.crash(nemesis.world.broker_names() or nemesis.world.peer_names(), power_loss=False)


def power_loss_peer(nemesis: Nemesis) -> None:
    """Cut the power of one peer."""
    nemesis.crash(nemesis.world.peer_names(), power_loss=True)


def power_loss_all_peers(nemesis: Nemesis) -> None:
    """Cut the power of all peers at the same time."""
    for name in nemesis.world.peer_names():
        if nemesis.world.is_running(name):
            nemesis.world.kill(name, power_loss=True)
            nemesis.until_healed(lambda name=name: nemesis.world.start(name))  # type: ignore[misc]


def power_loss_broker(nemesis: Nemesis) -> None:
    """Cut the power of one broker."""
    nemesis.crash(nemesis.world.broker_names() or nemesis.world.peer_names(), power_loss=True)


def pause(nemesis: Nemesis) -> None:
    """Pause a node (SIGSTOP), and resume it later (SIGCONT)."""
    name = nemesis.pick(nemesis.world.node_names())
    if nemesis.world.is_running(name) and not nemesis.world.is_paused(name):
        nemesis.world.pause(name)
        nemesis.until_healed(lambda: nemesis.world.resume(name))


def slow_disk(nemesis: Nemesis) -> None:
    """Slow down a peer's disk by a factor of 10 to 400."""
    name = nemesis.pick(nemesis.world.peer_names())
    factor = nemesis.random.randrange(10, 400)
    nemesis.until_healed(nemesis.world.slow_disk(name, factor))


def zombie_controller(nemesis: Nemesis) -> None:
    """Pause the controller (SIGSTOP) for about its session timeout, just after another broker has been killed."""
    controller = nemesis.world.record.state.controller_id
    others = [name for name in nemesis.world.broker_names() if name != f"broker-{controller}"]
    if controller < 0 or not others:
        return
    name = f"broker-{controller}"
    if nemesis.world.is_running(name) and not nemesis.world.is_paused(name):
        nemesis.crash(others, power_loss=False)
        session_ms = nemesis.world.settings.session_timeout_ms
        nemesis.world.pause(name)
        nemesis.until_healed(
            lambda: nemesis.world.resume(name), nemesis.random.randrange(session_ms // 2, 2 * session_ms)
        )


def moved_controller(nemesis: Nemesis) -> None:
    """Delete /controller as an operator would, in such a way that the controller notices it late.

    The controller is cut off from all other brokers, and messages from the ensemble to it are delayed.  So for a while
    it still handles the requests of partition leaders on its own broker.
    """
    controller = nemesis.world.record.state.controller_id
    if controller < 0:
        return
    name = f"broker-{controller}"
    lasts_ms = 3 * nemesis.world.settings.replica_lag_time_max_ms
    others = [other for other in nemesis.world.broker_names() if other != name]
    nemesis.until_healed(all_of([nemesis.world.cut(name, other, both_ways=True) for other in others]), lasts_ms)
    late_ms = nemesis.random.randrange(1_000, 3_500)
    delays = [nemesis.world.delay(peer, name, late_ms) for peer in nemesis.world.peer_names()]
    nemesis.until_healed(all_of(delays), lasts_ms)
    nemesis.operator.move_controller()
