"""From Kafka's requests to the parts that answer them, and back: one class a group of requests, each with a table.

A handler takes a message and its `RequestContext` and returns the answer.  Handlers may import every other folder of
`broker_sim`; only `broker` imports them.  Begin with `data` (produce and fetch) or `control` (what controllers send).
"""
