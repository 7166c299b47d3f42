"""The command line: `zabka VERB` runs the module of that name. Kafka's own tools are among the verbs.

Only the bench and tests import this package; it may import every package. A verb's modules are imported when it is
called. Begin with `main` and `verbs`, which define what a verb's module must have. Kafka's tools share `kafka_command`.
"""
