"""What `zabka.ensemble.client.kazoo` is made of.  It touches threads, an event loop, and kazoo's own classes.

Nobody but `zabka.ensemble.client.kazoo` imports it.  Begin with `state` (kazoo's states over our sessions) and `engine`
(the thread with the event loop); `types` translates records and errors.
"""
