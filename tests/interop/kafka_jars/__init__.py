"""Apache Kafka, Spark, Hadoop's module for S3 and a server for it, from Maven's repository."""

from tests.interop.kafka_jars.kafka_jars import classpath, jars, s3a_jars, s3proxy_classpath, spark_classpath

__all__ = ["classpath", "jars", "s3a_jars", "s3proxy_classpath", "spark_classpath"]
