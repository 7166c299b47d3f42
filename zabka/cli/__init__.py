"""The command line: `zabka VERB` runs the module named VERB. Kafka's own tools are among the verbs.

Only the bench and tests import this package; it may import every package. The modules of a verb are imported only when
the verb is called. To learn the code, read `main` and `verbs` first: they define what a verb's module must have.
Kafka's tools share `kafka_command`.
"""
