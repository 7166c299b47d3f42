"""Why no verb takes a Spark Connect server as its master."""

from __future__ import annotations


def no_connect(master: str) -> str | None:
    """The answer to a master that is a Spark Connect server; None of any other."""
    if not master.startswith("sc://"):
        return None
    return (
        f"{master} is a Spark Connect server, which these jobs cannot use. Runs and verdicts come back by "
        "accumulators, and its clients have none; and sources, sinks and interpreter are sent with the session that "
        "begins, where a server has begun. Name the master behind it, such as spark://host:7077."
    )
