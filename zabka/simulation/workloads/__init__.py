"""Clients in a simulated world that generate load and check the replies.

The clients are writers, watchers and readers of the ensemble, and producers and consumer groups of the brokers. Each
has a list of `violations`. The package uses `cluster`, `checkers` and the clients of ensemble and kafka; `seeds` and
tests import it. To learn the code, read `writer` first.
"""
