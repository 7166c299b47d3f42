"""Replicas: leaders and followers, their ISR, the high watermark, fetching and truncation.

The package imports `configs`, `quotas` and `logs`; `groups`, `handlers` and the broker import the package. To learn the
code, read `replica_manager` first, then `partition` (one replica as leader or follower) and `isr_rules` (which replicas
are in sync). `fetch_answers` is the leader's side of a fetch, and `fetcher` the follower's. `fencing` rejects requests
with an older epoch.
"""
