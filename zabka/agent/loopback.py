"""Checks for loopback addresses, and the Host header values that a server accepts."""

from __future__ import annotations

import ipaddress
import socket


def loopback(host: str) -> bool:
    """Return whether a server bound to `host` is reachable from this machine only.

    The only host name that counts as loopback is localhost.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(bind: str) -> list[str]:
    """Return the Host header values that a server bound to `bind` accepts besides the usual loopback names."""
    own = f"[{bind}]" if ":" in bind else bind
    return [own] if loopback(bind) else [own, socket.gethostname(), socket.getfqdn()]
