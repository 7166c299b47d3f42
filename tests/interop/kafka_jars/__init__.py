"""Apache Kafka, and Spark, from Maven's repository."""

from tests.interop.kafka_jars.kafka_jars import classpath, jars, spark_classpath

__all__ = ["classpath", "jars", "spark_classpath"]
