"""The /feature znode (ControllerIntegrationTest.testControllerFeatureZNodeSetup...).

Also tests brokers that do not support a finalized feature.
"""

from __future__ import annotations

import pytest

from tests.controller.controller_world import World
from zabka.controller.features import decode_features
from zabka.journal.events import ControllerEventFailed
from zabka.kafka.zk import znodes
from zabka.kafka.zk.znodes import BrokerEndpoint, BrokerInfo


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b'{"version":2,"status":1,"features":{}}'),
        (b'{"version":2,"status":0,"features":{}}', b'{"version":2,"status":1,"features":{}}'),
        (
            b'{"version":2,"status":1,"features":{"f":{"max_version_level":3}}}',
            b'{"version":2,"status":1,"features":{"f":{"max_version_level":3}}}',
        ),
        (
            b'{"features":{"f":{"min_version_level":1,"max_version_level":3}},"status":1,"version":1}',
            b'{"version":2,"status":1,"features":{"f":{"max_version_level":3}}}',
        ),
        (b"garbage", b"garbage"),
    ],
    ids=["absent", "disabled", "enabled", "of-version-1", "unreadable"],
)
def test_new_controller_enables_features_and_keeps_enabled_ones(before: bytes | None, after: bytes) -> None:
    world = World()
    if before is not None:
        world.ensemble.put(znodes.FEATURE, before)
    world.start(1)
    assert world.ensemble.data(znodes.FEATURE) == after
    assert world.nodes[1].controller.is_active


def test_broker_without_a_finalized_feature_is_ignored() -> None:
    world = World()
    world.ensemble.put(znodes.FEATURE, b'{"version":2,"status":1,"features":{"f":{"max_version_level":3}}}')
    plain = BrokerInfo(2, (BrokerEndpoint("PLAINTEXT", "b2", 9092),))
    for broker_id, features in ((2, ()), (3, (("f", 1, 2),)), (4, (("f", 1, 4),))):
        info = plain._replace(broker_id=broker_id, features=features)
        world.ensemble.put(znodes.broker_path(broker_id), znodes.encode_broker(info, 0), owner=0x9000 + broker_id)
    world.start(1)
    assert world.nodes[1].controller.term.context.live_ids == [4]
    assert len(world.events(ControllerEventFailed)) == 3


@pytest.mark.parametrize(
    "content",
    [None, b"", b"[]", b'{"version":3,"status":1,"features":{}}', b'{"version":2,"features":{}}',
     b'{"version":2,"status":1,"features":{"f":3}}', b'{"version":2,"status":1,"features":[]}'],
)  # fmt: skip
def test_unreadable_feature_znode_is_treated_as_empty(content: bytes | None) -> None:
    assert decode_features(content) is None
