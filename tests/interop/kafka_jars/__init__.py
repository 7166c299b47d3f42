"""Apache Kafka from Maven's repository."""

from kafka_jars.kafka_jars import classpath

__all__ = ["classpath"]
