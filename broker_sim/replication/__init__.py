"""Replicas: leaders and followers, their ISR, the high watermark, fetching and truncation.

It imports `configs`, `quotas` and `logs`; groups, handlers and the broker import it.  Begin with `replica_manager`,
then `partition` (what one replica does in its role) and `isr_rules` (who is in sync); `fetch_answers` is how a leader
serves its followers, and `fetcher` how a follower asks.  `fencing` says whose requests are refused.
"""
