"""pytest plugin that runs kazoo's test suite (from its wheel) with our peers instead of Java servers.

It replaces `kazoo.testing.harness.get_global_cluster`. The ensemble stays running between test classes, unless
KAZOO_SUITE_WIPE=1; kazoo's harness would wipe and restart it each time. A test that needs another configuration (SASL,
local sessions) or stops servers gets a separate ensemble.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import pytest
from peer_cluster import PeerCluster

# kazoo.testing.common imports both modules to create Java key stores. Our peers use PEM files, so empty modules
# suffice.
for _name in ("jks", "OpenSSL"):
    sys.modules.setdefault(_name, types.ModuleType(_name))

import kazoo.testing.harness as harness  # noqa: E402 (needs the two above)

WIPE = os.environ.get("KAZOO_SUITE_WIPE") == "1"
SIZE = 3
_PER_TEST = ("ZOOKEEPER_JAAS_AUTH", "ZOOKEEPER_LOCAL_SESSION_RO")
"""Environment variables by which a test's setUp requests a different configuration. Its tearDown removes them."""


class _Current:
    """The running ensemble and its configuration."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kazoo-suite-"))
        self.configuration: tuple[str, ...] = ()
        self.cluster: PeerCluster | None = None

    def get(self) -> PeerCluster:
        observers_from = os.environ.get("ZOOKEEPER_OBSERVER_START_ID", "-1")
        jaas = os.environ.get("ZOOKEEPER_JAAS_AUTH", "")
        local_sessions = os.environ.get("ZOOKEEPER_LOCAL_SESSION_RO", "false")
        requested = (observers_from, jaas, local_sessions)
        if self.cluster is None or requested != self.configuration:
            self.terminate()
            self.cluster = PeerCluster(self.directory, SIZE, int(observers_from), jaas, local_sessions)
            self.configuration = requested
        return self.cluster

    def terminate(self) -> None:
        if self.cluster is not None:
            self.cluster.terminate()

    def end(self) -> None:
        self.terminate()
        shutil.rmtree(self.directory, ignore_errors=True)


_current = _Current()
atexit.register(_current.end)


def _tear_down_class(cls: type) -> None:
    if WIPE:
        _current.terminate()


harness.get_global_cluster = _current.get
harness.KazooTestCase.tearDownClass = classmethod(_tear_down_class)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    """Remove the environment variables that configure the servers for one test.

    The test's tearDown may not remove them: unittest does not call tearDown if setUp was skipped or failed.
    """
    for name in _PER_TEST:
        os.environ.pop(name, None)
