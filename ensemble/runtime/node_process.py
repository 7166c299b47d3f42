"""Event loop of a node's process, and its logger, which writes to standard error."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TextIO, cast

import structlog


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop, or asyncio's own if uvloop is not installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LogStream:
    """Standard error as a log stream.

    If the stream is closed, or the disk of its file is full, lines that cannot be written are dropped.
    """

    def write(self, text: str) -> None:
        """Write a log line."""
        if sys.stderr is not None:
            with contextlib.suppress(OSError):
                sys.stderr.write(text)

    def flush(self) -> None:
        """Flush the buffered text."""
        if sys.stderr is not None:
            with contextlib.suppress(OSError):
                sys.stderr.flush()


def node_logger(node: str) -> structlog.BoundLogger:
    """Return a human-readable logger: one line per event on standard error, with the node's name."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer(colors=sys.stderr is not None and sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, LogStream())),
        cache_logger_on_first_use=True,
    )
    logger: structlog.BoundLogger = structlog.get_logger(node=node)
    return logger
