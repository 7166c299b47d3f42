"""BROKER_LOGGER resources. The expected responses are from Apache Kafka 3.9.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
import structlog
from kio.schema.errors import ErrorCode

from tests.broker_sim.broker_world import Cluster
from zabka.broker_sim import loggers
from zabka.broker_sim.configs.config_resources import Alteration, Operation
from zabka.broker_sim.loggers import LoggerLevels
from zabka.broker_sim.process_log import ProcessLog
from zabka.journal.events import ConfigChanged, RecordsAppended
from zabka.kafka.wire.kafka_schema import ApiKey, request

CONTROLLER = "kafka.controller.KafkaController"
DYNAMIC_BROKER_LOGGER_CONFIG = 6
Change = tuple[str, int, str | None]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(brokers=1).start()
    yield made
    made.stop_all()


def asked(cluster: Cluster, message: Any) -> Any:
    return cluster.on(cluster.nodes[1], cluster.nodes[1].broker.handle(message))


def alter(
    cluster: Cluster, *changes: Change, name: str = "1", validate_only: bool = False
) -> tuple[ErrorCode, str | None]:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resources = [{"resource_type": 8, "resource_name": name, "configs": configs}]
    message = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources, validate_only=validate_only)
    row = asked(cluster, message).responses[0]
    return row.error_code, row.error_message


def levels(cluster: Cluster, *names: str) -> dict[str, str]:
    resources = [{"resource_type": 8, "resource_name": "1", "configuration_keys": names or None}]
    row = asked(cluster, request(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources)).results[0]
    assert (row.error_code, row.error_message) == (ErrorCode.none, "")
    for config in row.configs:
        assert config.config_source == DYNAMIC_BROKER_LOGGER_CONFIG
        assert (config.read_only, config.is_sensitive, config.synonyms) == (False, False, ())
        assert (config.config_type, config.documentation) == (0, "")
    return {config.name: config.value for config in row.configs}


def test_every_logger_is_described_with_its_level(cluster: Cluster) -> None:
    described = levels(cluster)
    assert described == dict.fromkeys(("root", *loggers.NAMES), "INFO")
    assert levels(cluster, "root", CONTROLLER, "nope") == {"root": "INFO", CONTROLLER: "INFO"}


def test_logger_level_applies_until_it_is_deleted(cluster: Cluster) -> None:
    assert alter(cluster, (CONTROLLER, Operation.SET, "DEBUG"), ("root", Operation.SET, "WARN")) == (0, None)
    assert levels(cluster, "root", CONTROLLER) == {"root": "WARN", CONTROLLER: "DEBUG"}
    assert cluster.nodes[1].logged[-2:] == [
        f"Updated the log level of {CONTROLLER} to DEBUG",
        "Updated the log level of root to WARN",
    ]
    assert alter(cluster, (CONTROLLER, Operation.DELETE, None)) == (0, None)
    assert levels(cluster, "root", CONTROLLER) == {"root": "WARN", CONTROLLER: "WARN"}


def test_validate_only_does_not_change_a_logger_level(cluster: Cluster) -> None:
    assert alter(cluster, ("root", Operation.SET, "ERROR"), validate_only=True) == (0, None)
    assert levels(cluster, "root") == {"root": "INFO"}


VALID = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ([("nope", Operation.SET, "INFO")], ErrorCode.invalid_config, "Logger nope does not exist!"),
        ([("nope", Operation.SET, "SILLY")], ErrorCode.invalid_config, "Logger nope does not exist!"),
        ([("nope", Operation.DELETE, None)], ErrorCode.invalid_config, "Logger nope does not exist!"),
        (
            [("root", Operation.SET, "OFF")],
            ErrorCode.invalid_config,
            f"Cannot set the log level of root to OFF as it is not a supported log level. {VALID}",
        ),
        (
            [("root", Operation.SET, "debug")],
            ErrorCode.invalid_config,
            f"Cannot set the log level of root to debug as it is not a supported log level. {VALID}",
        ),
        (
            [("root", Operation.DELETE, None)],
            ErrorCode.invalid_request,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            [("root", Operation.APPEND, "INFO")],
            ErrorCode.invalid_request,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            [("root", Operation.SUBTRACT, "INFO")],
            ErrorCode.invalid_request,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        ([("root", Operation.SET, None)], ErrorCode.invalid_request, "Null value not supported for : root"),
        (
            [("root", Operation.SET, "INFO"), ("root", Operation.SET, "DEBUG")],
            ErrorCode.invalid_request,
            "Error due to duplicate config keys",
        ),
        (
            [("root", Operation.SET, "DEBUG"), ("nope", Operation.SET, "DEBUG")],
            ErrorCode.invalid_config,
            "Logger nope does not exist!",
        ),
    ],
)
def test_invalid_change_is_rejected_and_no_logger_level_changes(
    cluster: Cluster, changes: list[Change], error: ErrorCode, message: str
) -> None:
    assert alter(cluster, *changes) == (error, message)
    assert levels(cluster, "root") == {"root": "INFO"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Node id must be an integer, but it is: "),
        ("x", "Node id must be an integer, but it is: x"),
        ("2", "Unexpected node id. Expected 1, but received 2"),
    ],
)
def test_change_of_another_brokers_loggers_is_rejected(cluster: Cluster, name: str, message: str) -> None:
    assert alter(cluster, ("root", Operation.SET, "INFO"), name=name) == (ErrorCode.invalid_request, message)


class Lines:
    """Log that records every line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def _keep(self, text: str, **_: object) -> None:
        self.lines.append(text)

    debug = info = warning = error = _keep


def changed(levels: LoggerLevels, name: str, level: str | None) -> None:
    operation = Operation.DELETE if level is None else Operation.SET
    levels.alter([Alteration(name, operation, level)], validate_only=False)


def test_process_log_contains_lines_at_or_above_the_logger_level() -> None:
    kept, levels = Lines(), LoggerLevels()
    log = ProcessLog(cast(structlog.BoundLogger, kept), levels)

    def written() -> list[str]:
        kept.lines.clear()
        log.info(loggers.SERVER, "info")
        log.warning(loggers.CONNECTIONS, "warning")
        log.error(loggers.REQUESTS, "error")
        return list(kept.lines)

    assert written() == ["info", "warning", "error"]
    changed(levels, "root", "ERROR")
    assert written() == ["error"]
    changed(levels, loggers.CONNECTIONS, "WARN")
    assert written() == ["warning", "error"]
    changed(levels, loggers.REQUESTS, "FATAL")
    assert written() == ["warning"]
    changed(levels, loggers.CONNECTIONS, None)
    assert written() == []


def test_journal_events_are_logged_at_debug_and_trace() -> None:
    kept, levels = Lines(), LoggerLevels()
    log = ProcessLog(cast(structlog.BoundLogger, kept), levels)
    config = ConfigChanged("topics/orders", {})
    appended = RecordsAppended(1, "orders", 0, leader_epoch=0, first_offset=0, last_offset=9, checksum=7)
    log.event(config)
    assert kept.lines == []
    changed(levels, CONTROLLER, "DEBUG")
    log.event(config)
    assert kept.lines == ['{"type":"config_changed","entity":"topics/orders","config":{}}']
    changed(levels, loggers.REPLICAS, "DEBUG")
    log.event(appended)
    assert len(kept.lines) == 1
    changed(levels, loggers.REPLICAS, "TRACE")
    log.event(appended)
    assert kept.lines[1].startswith('{"type":"records_appended","broker_id":1')
