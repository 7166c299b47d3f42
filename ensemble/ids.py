"""Distinct types for the ensemble's identifiers: server ids, epochs, zxids, sessions and connections."""

from __future__ import annotations

from typing import NewType

PeerId = NewType("PeerId", int)
"""A server's `myid`, 0-255."""
Epoch = NewType("Epoch", int)
"""Epoch of a leader; the upper 32 bits of a zxid."""
Zxid = NewType("Zxid", int)
"""Transaction id: epoch << 32 | counter."""
SessionId = NewType("SessionId", int)
"""Id of a client session, signed 64-bit as on the wire."""
LinkId = NewType("LinkId", int)
"""Id of one connection on the quorum port, assigned by the driver, never reused within a process."""
ConnectionId = NewType("ConnectionId", int)
"""Id of one client connection, assigned by the driver, never reused within a process."""

NO_PEER = PeerId(-1)
COUNTER_MAX = 0xFFFFFFFF
EPOCH_MAX = 0x7FFFFFFF
EPOCH_LEAP_MAX = 1 << 24
"""Maximum by which another server's epoch may exceed this server's epoch.

A message with a higher epoch is rejected: otherwise one corrupt packet could use up all epochs.
"""


def make_zxid(epoch: int, counter: int) -> Zxid:
    """Return the zxid of `counter` in `epoch`."""
    return Zxid((epoch << 32) | counter)


def epoch_of(zxid: int) -> Epoch:
    """Return the epoch of a zxid."""
    return Epoch(zxid >> 32)


def counter_of(zxid: int) -> int:
    """Return a zxid's counter within its epoch."""
    return zxid & COUNTER_MAX


def zxid_text(zxid: int) -> str:
    """Return a zxid as ZooKeeper prints it, such as `0x100000002`."""
    return f"0x{zxid:x}"
