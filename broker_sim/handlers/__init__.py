"""Request handlers, which pass Kafka's requests to the broker's parts. Each group of APIs has a class.

A handler receives a message and its `RequestContext` and returns the response. Each class has a table of its handlers.
Handlers may import every other package of `broker_sim`; only `broker` imports them. To learn the code, read `data`
(produce and fetch) or `control` (requests of controllers) first.
"""
