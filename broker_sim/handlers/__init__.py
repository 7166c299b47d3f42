"""Request handlers, which pass Kafka's requests to the broker's parts. There is one class per group of APIs.

A handler receives a message and its `RequestContext` and returns the response. Each class has a table of its handlers.
Handlers may import every other package of `broker_sim`; only `broker` imports them. Begin with `data` (produce and
fetch) or `control` (requests of controllers).
"""
