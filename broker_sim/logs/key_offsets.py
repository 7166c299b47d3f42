"""The map that compaction works with: of each key the latest offset, in a bounded memory (Kafka's SkimpyOffsetMap).

Keys themselves are not kept, only their MD5: two keys with the same one would be taken for one key, as in Kafka.
"""

from __future__ import annotations

from hashlib import md5

_DIGEST_BYTES = 16
_OFFSET_BYTES = 8
ENTRY_BYTES = _DIGEST_BYTES + _OFFSET_BYTES
_PAGE_SLOTS = 4_096
_NONE = bytes(_DIGEST_BYTES)
_FULL_AT = 0.75
"""A table that is fuller than this is slow to look up; it is made larger where the memory allows it."""


class KeyOffsets:
    """A table in a memory of so many bytes, 24 for each slot; `load` is how full it becomes.

    Where at most `expected` keys will come, the table is no larger than they need, and a page of it takes no memory
    until a key falls into it.
    """

    def __init__(self, memory_bytes: int, load: float, expected: int) -> None:
        slots = memory_bytes // ENTRY_BYTES
        self._keys_max = int(slots * load)
        self._slots = max(1, min(slots, int(expected / _FULL_AT) + 1))
        self._pages: list[bytearray | None] = [None] * -(-self._slots // _PAGE_SLOTS)
        self._count = 0
        self.latest_offset = -1
        """That of the last record that was noted."""

    def __len__(self) -> int:
        return self._count

    @property
    def memory_bytes(self) -> int:
        """What the table takes at present."""
        return sum(len(page) for page in self._pages if page is not None)

    def put(self, key: bytes, offset: int) -> bool:
        """Note the offset of a key, which is higher than any before; False where the map is full."""
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
        """The latest offset of a key; -1 where none was noted."""
        digest = md5(key, usedforsecurity=False).digest()
        place = self._place(digest)
        if place is None:
            return -1
        page, at = place
        if page[at : at + _DIGEST_BYTES] != digest:
            return -1
        return int.from_bytes(page[at + _DIGEST_BYTES : at + ENTRY_BYTES], "big")

    def _place(self, digest: bytes) -> tuple[bytearray, int] | None:
        """Where the key stands, or would be put; None where it is not there and no slot is free."""
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
