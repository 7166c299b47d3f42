"""IP addresses as the `ip` scheme writes and matches them (IPAuthenticationProvider)."""

from __future__ import annotations

import re

_DECIMAL = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]{1,4}", re.ASCII)
_V6_GROUPS = 8


def parse_address(text: str) -> bytes | None:
    """Return the 4 or 16 bytes of an address, or None if the text is not an address."""
    return _parse_v6(text) if ":" in text else _parse_v4(text)


def _parse_v4(text: str) -> bytes | None:
    parts = text.split(".")
    if len(parts) != 4 or not all(_DECIMAL.fullmatch(part) for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return bytes(numbers) if all(0 <= number <= 255 for number in numbers) else None


def _parse_v6(text: str) -> bytes | None:
    halves = text.split("::")
    groups = [half.split(":") if half else [] for half in halves]
    known = sum(map(len, groups))
    if len(halves) > 2 or known > _V6_GROUPS - (len(halves) == 2) or (len(halves) == 1 and known != _V6_GROUPS):
        return None
    if not all(_HEX.fullmatch(group) for half in groups for group in half):
        return None
    packed = [b"".join(int(group, 16).to_bytes(2, "big") for group in half) for half in groups]
    return (bytes(2 * (_V6_GROUPS - known))).join(packed) if len(packed) == 2 else packed[0]


def parse_network(text: str) -> tuple[bytes, int] | None:
    """Parse "10.1.0.0/16" into an address and a number of leading bits.

    Without "/", all bits of the address count. Return None if the text is not a network.
    """
    address_text, slash, bits_text = text.partition("/")
    address = parse_address(address_text)
    if address is None:
        return None
    if not slash:
        return address, 8 * len(address)
    if not _DECIMAL.fullmatch(bits_text) or not 0 <= int(bits_text) <= 8 * len(address):
        return None
    return address, int(bits_text)


def within(address_text: str, network_text: str) -> bool:
    """Return whether an address is in a network; False if their address families differ."""
    network = parse_network(network_text)
    address = parse_address(address_text)
    if network is None or address is None or len(address) != len(network[0]):
        return False
    shift = 8 * len(address) - network[1]
    return int.from_bytes(address, "big") >> shift == int.from_bytes(network[0], "big") >> shift


def canonical_address(host: str) -> str:
    """Return an address in Java's notation (InetAddress.getHostAddress).

    IPv6 addresses are written in full without leading zeros, mapped IPv4 addresses as IPv4, without a zone. A string
    that is not an address is returned unchanged.
    """
    address = parse_address(host.partition("%")[0])
    if address is None and host.startswith("::ffff:"):
        address = _parse_v4(host.removeprefix("::ffff:"))
    if address is None:
        return host
    if len(address) == 16 and address.startswith(bytes(10) + b"\xff\xff"):
        address = address[12:]
    if len(address) == 4:
        return ".".join(map(str, address))
    return ":".join(f"{int.from_bytes(address[i : i + 2], 'big'):x}" for i in range(0, 16, 2))
