"""Clients in a simulated world that generate load and check the replies they receive.

Writers, watchers and readers of the ensemble, producers and consumer groups of the brokers.  Each keeps its
`violations`.  Builds on `cluster`, `checkers` and the clients of ensemble and kafka; `seeds` and tests import it.
Begin with `writer`.
"""
