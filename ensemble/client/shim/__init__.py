"""The parts of `zabka.ensemble.client.kazoo`: code that uses threads, an event loop, and kazoo's own classes.

Only `zabka.ensemble.client.kazoo` imports this package. Begin with `state` (kazoo's states, derived from zabka's
sessions) and `engine` (the thread with the event loop); `types` converts records and errors.
"""
