"""Settings for trying the addresses of a server with several addresses (multiAddress.reachabilityCheck...)."""

from __future__ import annotations

from typing import NamedTuple


class Reachability(NamedTuple):
    """Values of multiAddress.reachabilityCheckEnabled and …TimeoutMs.

    The timeout is how long a connection may be silent before another address is tried. Without checks a server's
    addresses are tried one after another.
    """

    checks: bool = True
    timeout_s: float = 1.0


CHECKED = Reachability()
