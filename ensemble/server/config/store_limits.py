"""Limits of stores: a client can select a broker's stores, and they are loaded on the event loop.

A store must be a regular file of limited size. Its keys must not need too much work to decrypt: the number of
iterations is in the store itself (RFC 7292, 8018 and 7914), as an integer after a salt:

| structure | integers after the salt |
|---|---|
| PBKDF2-params, pkcs-12PbeParams, MacData | iterations |
| scrypt-params | cost, block size and parallelization, which are multiplied |

The check finds them wherever they are in the structure, except in its encrypted parts.
"""

from __future__ import annotations

import base64
import errno
import math
import os
import re
import stat
from pathlib import Path

STORE_BYTES_MAX = 1 << 20
ITERATIONS_MAX = 1_000_000
"""Kafka's and OpenSSL's stores have 10,000 or 2,048 iterations, and OWASP recommends 600,000 for passwords."""
_DEPTH_MAX = 64
_INTEGER, _OCTETS, _JOINED_OCTETS, _SEQUENCE = 0x02, 0x04, 0x24, 0x30
_CONSTRUCTED, _LONG_TAG, _OPEN = 0x20, 0x1F, 0x80
_INTEGER_BYTES_MAX = 8
"""Larger integers are no numbers of iterations: the libraries that load stores reject them."""
_SCRYPT_INTEGERS = 3
_ENCRYPTED_KEY = re.compile(rb"-----BEGIN ENCRYPTED PRIVATE KEY-----(.*?)-----END", re.DOTALL)


class TooManyIterations(ValueError):
    """A key needs too much work to decrypt."""


def read_store(path: Path) -> bytes:
    """Return the content of a store's file. Raises OSError, also for other files than regular ones."""
    # Without O_NONBLOCK, opening a FIFO would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(STORE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    if len(content) > STORE_BYTES_MAX:
        raise OSError(errno.EFBIG, f"it is larger than {STORE_BYTES_MAX} bytes")
    return content


def check_pem(content: bytes) -> None:
    """Raise TooManyIterations for an encrypted key in PEM that needs too many, and ValueError if it is malformed."""
    for body in _ENCRYPTED_KEY.findall(content):
        # Decode strictly: loaders skip headers in a block, whose text could hide the key from this check.
        check_iterations(base64.b64decode(b"".join(body.split()), validate=True))


def check_iterations(content: bytes) -> None:
    """Raise TooManyIterations for a PKCS8 key or a PKCS12 store (BER), and ValueError if it is malformed."""
    tag, begin, stop = _header(content, 0, len(content))
    if tag != _SEQUENCE:
        raise ValueError("it is not a sequence in BER")
    _walk(content, begin, len(content) if stop is None else stop, 1, is_open=stop is None)


def _header(data: bytes, at: int, end: int) -> tuple[int, int, int | None]:
    """Return an element's tag, and where its content begins and ends. The end is None for an indefinite length."""
    if at + 2 > end or data[at] & _LONG_TAG == _LONG_TAG:
        raise ValueError("it is not valid BER")
    tag, size, begin = data[at], data[at + 1], at + 2
    if size == _OPEN and tag & _CONSTRUCTED:
        return tag, begin, None
    if size >= _OPEN:
        begin += size - _OPEN
        size = int.from_bytes(data[at + 2 : begin])
    if begin + size > end:
        raise ValueError("it is not valid BER")
    return tag, begin, begin + size


def _walk(data: bytes, at: int, end: int, depth: int, *, is_open: bool = False) -> int:
    """Check the elements from `at` to `end`, or to the mark of their end, with their content. Return their end."""
    if depth > _DEPTH_MAX:
        raise ValueError("it is nested too deeply")
    counts: list[int] | None = None
    while at < end:
        tag, begin, stop = _header(data, at, end)
        if is_open and tag == 0:
            return begin
        if tag == _JOINED_OCTETS:
            content, at = _joined(data, begin, end if stop is None else stop)
            _look_into(content, 0, len(content), depth)
        elif tag & _CONSTRUCTED:
            at = _walk(data, begin, end if stop is None else stop, depth + 1, is_open=stop is None)
        else:
            assert stop is not None
            at = stop
        if tag == _OCTETS:
            _look_into(data, begin, at, depth)
        if tag in (_OCTETS, _JOINED_OCTETS):
            counts = []
        elif tag == _INTEGER and counts is not None and at - begin <= _INTEGER_BYTES_MAX:
            counts.append(int.from_bytes(data[begin:at]))
            _check(counts)
        else:
            counts = None
    return at


def _check(counts: list[int]) -> None:
    work = math.prod(counts) if len(counts) == _SCRYPT_INTEGERS else counts[0]
    if work > ITERATIONS_MAX:
        raise TooManyIterations(f"decrypting it needs {work} iterations, and at most {ITERATIONS_MAX} are allowed")


def _look_into(data: bytes, at: int, end: int, depth: int) -> None:
    """Check the elements in an octet string, which can also be other bytes."""
    try:
        _walk(data, at, end, depth + 1)
    except TooManyIterations:
        raise
    except ValueError:
        pass


def _joined(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Return the content of an octet string in parts, and its end."""
    parts = []
    while at < end:
        tag, begin, stop = _header(data, at, end)
        at = begin if stop is None else stop
        if tag == 0:
            break
        if tag != _OCTETS:
            raise ValueError("it is not valid BER")
        parts.append(data[begin:at])
    return b"".join(parts), at
