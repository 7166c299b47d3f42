"""What is reached from this machine alone, and by which names one asks for a server."""

from __future__ import annotations

import ipaddress
import socket


def loopback(host: str) -> bool:
    """Whether a server bound there is reached from this machine alone.  Of names that is known of one."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(bind: str) -> list[str]:
    """The Host headers with which a server bound there is asked, beside the usual names of loopback."""
    own = f"[{bind}]" if ":" in bind else bind
    return [own] if loopback(bind) else [own, socket.gethostname(), socket.getfqdn()]
