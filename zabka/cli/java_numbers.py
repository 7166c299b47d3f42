"""Parsers for numbers in the options and files of Kafka's tools: Java's short, int and long.

Requests can contain no other number types.
"""

from __future__ import annotations

import argparse


def _bounded(text: str, bits: int) -> int:
    try:
        number = int(text)
    except ValueError:
        # Python also raises ValueError for numbers with too many digits.
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise argparse.ArgumentTypeError(f"{text[:40]} does not fit into {bits} bits")
    return number


def java_int(text: str) -> int:
    """Parse an option's value as an int.  Raises argparse.ArgumentTypeError."""
    return _bounded(text, 32)


def java_long(text: str) -> int:
    """Parse an option's value as a long.  Raises argparse.ArgumentTypeError."""
    return _bounded(text, 64)


def json_number(value: object, bits: int = 32) -> int:
    """Return an integer from a JSON file. The integer must fit in `bits` bits.

    Raises ValueError for any other value (kafka.utils.json.DecodeJson).
    """
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"expected a whole number of {bits} bits, received {value!r}")
    return value


def json_text(value: object) -> str:
    """Return a value from a JSON file if it is a string that UTF-8 can encode.

    Otherwise raise ValueError.
    """
    if not isinstance(value, str):
        raise ValueError(f"expected a string, received {value!r}")
    value.encode()
    return value
