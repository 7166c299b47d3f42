"""Replicas: leaders and followers, their ISR, the high watermark, fetching and truncation.

It imports `configs`, `quotas` and `logs`; `groups`, `handlers` and the broker import it. Begin with `replica_manager`,
then `partition` (one replica in its role) and `isr_rules` (which replicas are in sync). `fetch_answers` is the leader's
side of a fetch, and `fetcher` the follower's. `fencing` rejects requests of an older epoch.
"""
