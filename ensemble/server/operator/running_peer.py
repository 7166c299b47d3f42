"""What those who operate a peer look at: its configuration, and the parts that run."""

from __future__ import annotations

from typing import NamedTuple

from ensemble.server.config.zoo_cfg import ZooConfig
from ensemble.server.net.client_port import ClientPort
from ensemble.tree.service import Service
from ensemble.txnlog.storage import Storage
from ensemble.zab.peer import Peer


class RunningPeer(NamedTuple):
    """One peer and what is around it."""

    config: ZooConfig
    peer: Peer
    service: Service
    clients: ClientPort
    storage: Storage
