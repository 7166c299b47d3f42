"""ZooKeeper sessions that end in a simulated world."""

from __future__ import annotations

import pytest

from zabka.testing import ClusterFailed, running_world


def test_controller_with_an_expired_session_is_replaced() -> None:
    with running_world(seed=1, peers=1, brokers=2) as world:
        controller = world.until(lambda: world.controller)
        epoch = world.controller_epoch
        world.expire_session(controller)
        world.until(lambda: world.controller_epoch > epoch and world.controller)
        world.until(lambda: controller.registered)


def test_unknown_session_cannot_expire() -> None:
    with running_world(seed=1, peers=1, brokers=1) as world, pytest.raises(ClusterFailed, match="no session 0x1234"):
        world.expire_session((0x1234, b"password"))
