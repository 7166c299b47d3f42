"""Jars of Apache Kafka, Spark, Hadoop's S3 module and an S3 server, downloaded from a Maven repository."""

from tests.interop.kafka_jars.kafka_jars import (
    classpath,
    jars,
    s3a_jars,
    s3proxy_classpath,
    spark_classpath,
    streams_classpath,
)

__all__ = ["classpath", "jars", "s3a_jars", "s3proxy_classpath", "spark_classpath", "streams_classpath"]
