"""Selection of fault targets by current role: leader, follower, controller, or the last target.

Outages of distributed systems depend on roles ("the leader is cut off from the controller"), not on names ("2 from 3").
If targets are chosen by role, several actions in a row often affect the same nodes; if targets are chosen by name, they
rarely do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zabka.journal.events import TopicPartition
from zabka.simulation.cluster.node_names import broker_name
from zabka.simulation.cluster.world import World


class Parts(NamedTuple):
    """Names of the nodes that currently have each role; an empty string if no node has it."""

    leader: str
    followers: tuple[str, ...]
    controller: str
    zab_leader: str


def parts(world: World, focus: TopicPartition) -> Parts:
    """Return the names of the nodes that have each role, such as the leader of the partition `focus`."""
    state = world.replication.znodes.states.get(focus)
    assignment = world.replication.znodes.topics.get(focus.topic)
    replicas = assignment.partitions[focus.partition].replicas if assignment and state else ()
    controller = world.record.state.controller_id
    serving = world.zab_leader()
    return Parts(
        leader=broker_name(state.leader) if state and state.leader >= 0 else "",
        followers=tuple(broker_name(each) for each in replicas if state is None or each != state.leader),
        controller=broker_name(controller) if controller in world.brokers else "",
        zab_leader=serving.name if serving is not None else "",
    )


class Cast:
    """Selects the nodes that a step affects in one world."""

    def __init__(self, world: World, focus: TopicPartition) -> None:
        self._world = world
        self._focus = focus
        self.last = ""
        """Name of the node that the last step affected."""

    @property
    def zab_leader(self) -> str:
        """Return the peer that leads, or an empty string if there is none."""
        return parts(self._world, self._focus).zab_leader

    def one(self, role: Callable[[int], int], name: Callable[[int], int]) -> str:
        """Return the name of a node, or an empty string if no node has the selected role.

        `role` selects the role and `name` the node: each returns a number below its argument.
        """
        world = self._world
        found = parts(world, self._focus)
        peers, brokers = world.peer_names(), world.broker_names()
        others = [each for each in brokers if each not in (found.leader, found.controller)]
        zab_others = [each for each in peers if each != found.zab_leader]
        if not brokers:
            groups: list[list[str]] = [[found.zab_leader], zab_others, zab_others, [self.last]]
        else:
            groups = [
                [found.leader], list(found.followers), [found.leader], list(found.followers), [found.controller],
                others, [self.last], [self.last], [self.last], [found.zab_leader], zab_others,
            ]  # fmt: skip
        group = groups[role(len(groups))]
        return group[name(len(group))] if group else ""

    def some(self, but: str, role: Callable[[int], int], name: Callable[[int], int]) -> list[str]:
        """Return the names of some nodes other than `but`: one node, or all nodes with one role or of one kind."""
        world = self._world
        found = parts(world, self._focus)
        peers, brokers = world.peer_names(), world.broker_names()
        if not brokers:
            groups: list[list[str]] = [peers, [found.zab_leader], [peers[name(len(peers))]], [peers[name(len(peers))]]]
        else:
            groups = [
                [found.leader], list(found.followers), [found.controller], peers, peers, brokers, brokers + peers,
                [brokers[name(len(brokers))]], [self.last],
            ]  # fmt: skip
        return [each for each in groups[role(len(groups))] if each and each != but]
