"""The command line: `zabka VERB` is the module of that name, with Kafka's own tools among them.

Nothing imports it, save the bench and tests; it may import every room.  A verb's modules are imported when it is
called.  Begin with `cli`, which says what a verb's module has to have; Kafka's tools share `kafka_command`.
"""
