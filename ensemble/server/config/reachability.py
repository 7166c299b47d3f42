"""How the addresses of a server that has several are tried (multiAddress.reachabilityCheck...)."""

from __future__ import annotations

from typing import NamedTuple


class Reachability(NamedTuple):
    """multiAddress.reachabilityCheckEnabled, and …TimeoutMs: how long a connection may say nothing before another
    address is worth a try.  Without checks a server's addresses are tried one after the other."""

    checks: bool = True
    timeout_s: float = 1.0


CHECKED = Reachability()
