"""The first members of a simulated ensemble whose membership may change."""

from __future__ import annotations

import msgspec

from zabka.ensemble.auth.policy import AuthPolicy
from zabka.ensemble.ids import PeerId
from zabka.ensemble.zab.application import EnsembleConfig
from zabka.ensemble.zab.membership import Membership
from zabka.ensemble.zab.server_line import ServerLine
from zabka.simulation.network.addresses import peer_name

ADMIN = AuthPolicy(skip_acl=True)
"""Whoever can reach the ensemble may change it: what is searched here is not who may."""


def server_line(peer: int, *, observer: bool = False) -> ServerLine:
    """A peer as a member; addresses mean nothing in the simulated network, which goes by names."""
    return ServerLine(peer_name(peer), 2888, 3888, observer, "0.0.0.0", 2181)


def with_membership(config: EnsembleConfig, members: int) -> EnsembleConfig:
    """A peer's configuration in an ensemble of so many first members that may change; a peer that is none of them
    knows them and itself."""
    ids = dict.fromkeys((*range(1, members + 1), config.my_id))
    first = Membership.of_servers({PeerId(i): server_line(i) for i in ids}, 0)
    return msgspec.structs.replace(config, membership=first.text, reconfig_enabled=True, auth=ADMIN)
