"""Request handlers: from Kafka's requests to the parts that process them, one class per group of requests.

A handler takes a message and its `RequestContext` and returns the response. Each class has a table of its handlers.
Handlers may import every other package of `broker_sim`; only `broker` imports them. Begin with `data` (produce and
fetch) or `control` (requests of controllers).
"""
