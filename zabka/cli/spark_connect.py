"""The rejection of Spark Connect servers, which no verb accepts as its master."""

from __future__ import annotations


def no_connect(master: str) -> str | None:
    """Return the error for a master that is a Spark Connect server; None for any other."""
    if not master.startswith("sc://"):
        return None
    return (
        f"{master} is a Spark Connect server, which these jobs cannot use: its clients have no accumulators, by "
        "which runs and verdicts are returned, and a running server accepts no sources, sinks and interpreter from a "
        "new session. Name the master behind it, such as spark://host:7077."
    )
