"""Rejects Spark Connect servers, which no verb accepts as --master."""

from __future__ import annotations


def no_connect(master: str) -> str | None:
    """Return an error message if `master` is a Spark Connect server, otherwise None."""
    if not master.startswith("sc://"):
        return None
    return (
        f"{master} is a Spark Connect server, which these jobs cannot use: its clients have no accumulators, by "
        "which runs and verdicts are returned, and a running server accepts no sources, sinks and interpreter from a "
        "new session. Name the master behind it, such as spark://host:7077."
    )
