"""Settings for reaching a server that has several addresses (multiAddress.reachabilityCheck...)."""

from __future__ import annotations

from typing import NamedTuple


class Reachability(NamedTuple):
    """Values of multiAddress.reachabilityCheckEnabled and …TimeoutMs.

    After a connection received nothing for the timeout, another address of the server is tried. If the check is
    disabled, a server's addresses are tried one after another.
    """

    checks: bool = True
    timeout_s: float = 1.0


CHECKED = Reachability()
