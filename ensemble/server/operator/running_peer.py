"""The parts of a running peer that the operator interfaces read: its configuration and components."""

from __future__ import annotations

from typing import NamedTuple

from zabka.ensemble.runtime.links import FaultTable, LinkFaults
from zabka.ensemble.server.config.zoo_cfg import ZooConfig
from zabka.ensemble.server.net.client_port import ClientPort
from zabka.ensemble.tree.service import Service
from zabka.ensemble.txnlog.storage import Storage
from zabka.ensemble.zab.peer import Peer


class RunningPeer(NamedTuple):
    """A peer and its components."""

    config: ZooConfig
    peer: Peer
    service: Service
    clients: ClientPort
    storage: Storage
    links: LinkFaults

    def hold_faults(self, table: FaultTable) -> None:
        """Replace the active link faults and request faults by those in the table."""
        self.links.apply(table)
        self.clients.hold_faults(table.requests)
        self.clients.hold_links(table)
