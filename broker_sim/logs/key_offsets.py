"""The map from each key to its latest offset that compaction uses, in bounded memory (Kafka's SkimpyOffsetMap).

It stores only the MD5 of each key. Two keys with the same MD5 would count as one key, as in Kafka.
"""

from __future__ import annotations

from hashlib import md5

_DIGEST_BYTES = 16
_OFFSET_BYTES = 8
ENTRY_BYTES = _DIGEST_BYTES + _OFFSET_BYTES
_PAGE_SLOTS = 4_096
_NONE = bytes(_DIGEST_BYTES)
_FULL_AT = 0.75
"""Load factor of the table above which searches become slow. The table then grows if the memory limit allows."""


class KeyOffsets:
    """A hash table from key to offset. It takes at most `memory_bytes`, with 24 bytes per slot.

    `load` is the maximum load factor. If at most `expected` keys will be added, the table is no larger than they need.
    A memory page is not used until it contains a key.
    """

    def __init__(self, memory_bytes: int, load: float, expected: int) -> None:
        slots = memory_bytes // ENTRY_BYTES
        self._keys_max = int(slots * load)
        self._slots = max(1, min(slots, int(expected / _FULL_AT) + 1))
        self._pages: list[bytearray | None] = [None] * -(-self._slots // _PAGE_SLOTS)
        self._count = 0
        self.latest_offset = -1
        """The offset of the last added key."""

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """Number of bytes that the table currently takes."""
        return sum(len(page) for page in self._pages if page is not None)

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of a key. Return False if the map is full.

        The offset must be higher than any offset before.
        """
        if self._count >= self._keys_max:
            return False
        digest = md5(key, usedforsecurity=False).digest()
        place = self._place(digest)
        if place is None:
            return False
        page, at = place
        if page[at : at + _DIGEST_BYTES] != digest:
            self._count += 1
        page[at : at + ENTRY_BYTES] = digest + offset.to_bytes(_OFFSET_BYTES, "big")
        self.latest_offset = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the latest offset of a key; -1 if the key is unknown."""
        digest = md5(key, usedforsecurity=False).digest()
        place = self._place(digest)
        if place is None:
            return -1
        page, at = place
        if page[at : at + _DIGEST_BYTES] != digest:
            return -1
        return int.from_bytes(page[at + _DIGEST_BYTES : at + ENTRY_BYTES], "big")

    def _place(self, digest: bytes) -> tuple[bytearray, int] | None:
        """Return the slot of a key, or the free slot for a new key. Return None if no slot is free."""
        slot = int.from_bytes(digest[:_OFFSET_BYTES], "big") % self._slots
        for _ in range(self._slots):
            number, within = divmod(slot, _PAGE_SLOTS)
            page = self._pages[number]
            if page is None:
                page = self._pages[number] = bytearray(_PAGE_SLOTS * ENTRY_BYTES)
            at = within * ENTRY_BYTES
            found = page[at : at + _DIGEST_BYTES]
            if found in (digest, _NONE):
                return page, at
            slot = slot + 1 if slot + 1 < self._slots else 0
        return None
