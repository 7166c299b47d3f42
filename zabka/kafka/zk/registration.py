"""Registration in ZooKeeper: persistent paths, the cluster id, brokers, and the controller.

Sources: kafka.zk.KafkaZkClient (createTopLevelPaths, createOrGetClusterId, registerBroker with CheckedEphemeral,
registerControllerAndIncrementControllerEpoch, checkControllerAndEpoch).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Container
from functools import partial
from typing import NamedTuple

from zabka.ensemble.client.service import Check, Create, Delete, Op, SetData
from zabka.ensemble.errors import ErrorCode, NoNode, error_for
from zabka.ensemble.ids import SessionId
from zabka.ensemble.ports import Random
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.znodes import BrokerInfo


class BrokerIdInUse(Exception):
    """/brokers/ids/N already exists, and its session is not known to be a session of this process."""

    def __init__(self, broker_id: int, owner: int) -> None:
        super().__init__(f"{znodes.broker_path(broker_id)} is held by session 0x{owner & (2**64 - 1):x}")
        self.broker_id = broker_id
        self.owner = owner


class ControllerSeen(NamedTuple):
    """Content of /controller and /controller_epoch.

    The broker id is -1 if there is no controller, and the epoch is 0 before the first controller was elected.
    """

    broker_id: int
    owner: int
    version: int
    epoch: int
    epoch_zk_version: int


class Won(NamedTuple):
    """The result of a won election: this broker is the controller.

    It contains the controller epoch, the version of /controller_epoch that fences the controller's writes, and the zxid
    of the election.
    """

    epoch: int
    epoch_zk_version: int
    zxid: int


async def create_recursive(zk: Zk, path: str, data: bytes | None = None) -> bool:
    """Create a znode and its missing parents; return False if it already exists."""
    outcome = await zk.attempt(lambda: zk.service.create(path, data))
    if outcome.error is ErrorCode.NO_NODE:
        await create_recursive(zk, path.rpartition("/")[0])
        outcome = await zk.attempt(lambda: zk.service.create(path, data))
    if outcome.error not in (ErrorCode.OK, ErrorCode.NODE_EXISTS):
        raise error_for(outcome.error, path)
    return outcome.error is ErrorCode.OK


async def create_persistent_paths(zk: Zk) -> None:
    """Create the paths that every broker requires (ZkData.PersistentZkPaths), parents first.

    The chroot of zookeeper.connect is created if it is missing (KafkaZkClient.createZkClient). Raises ZooKeeperError.
    """
    paths: dict[str, None] = {}
    for path in znodes.PERSISTENT_PATHS:
        parent = path.rpartition("/")[0]
        if parent:
            paths[parent] = None
        paths[path] = None
    requests = [partial(zk.service.create, path, None) for path in paths]
    outcomes = await zk.batch(requests)
    if outcomes[0].error is ErrorCode.NO_NODE:
        # The first path is directly below the root. Its parent can be missing only if the root is a chroot.
        await zk.call(zk.service.create_chroot)
        outcomes = await zk.batch(requests)
    for path, outcome in zip(paths, outcomes, strict=True):
        if outcome.error not in (ErrorCode.OK, ErrorCode.NODE_EXISTS):
            raise error_for(outcome.error, path)


async def cluster_id(zk: Zk, random: Random) -> str:
    """Return the cluster id in /cluster/id. If there is none yet, create one."""
    while True:
        try:
            data, _ = await zk.call(lambda: zk.service.get(znodes.CLUSTER_ID))
        except NoNode:
            fresh = urlsafe_b64encode(random.getrandbits(128).to_bytes(16, "big")).decode().rstrip("=")
            await create_recursive(zk, znodes.CLUSTER_ID, znodes.encode_cluster_id(fresh))
            continue
        found = znodes.decode_cluster_id(data)
        if found is None:
            raise ValueError(f"{znodes.CLUSTER_ID} holds no cluster id")
        return found


async def next_broker_id(zk: Zk, reserved_max: int) -> int:
    """Return a new id for a broker without a configured id: the version of /brokers/seqid plus `reserved_max`."""
    stat = await zk.call(lambda: zk.service.set(znodes.BROKER_SEQUENCE_ID, b""))
    return reserved_max + stat.version


async def register_broker(zk: Zk, info: BrokerInfo, timestamp_ms: int, own_sessions: Container[SessionId]) -> int:
    """Create /brokers/ids/N for this session, and return the znode's czxid, which is the broker epoch.

    A znode of an earlier session of this process is removed first (KAFKA-7165). A znode of this session means that an
    earlier create succeeded but its reply was lost. Raises BrokerIdInUse if the znode's owner is any other session.
    """
    service = zk.service
    path = znodes.broker_path(info.broker_id)
    data = znodes.encode_broker(info, timestamp_ms)
    # The result of SetData contains the czxid of this transaction, which is the broker epoch. Create returns no Stat.
    ops: list[Op] = [Create(path, None, ephemeral=True), SetData(path, data, 0)]
    while True:
        results = await zk.call(lambda: service.multi(ops))
        stat = results[1].stat
        if stat is not None:
            return stat.czxid
        error = next(r.error for r in results if r.error is not ErrorCode.OK)
        if error is not ErrorCode.NODE_EXISTS:
            raise error_for(error, path)
        standing = await zk.call(lambda: service.exists(path))
        if standing is None:
            continue
        owner = SessionId(standing.ephemeral_owner)
        if owner == service.session_id:
            return standing.czxid
        if owner not in own_sessions:
            raise BrokerIdInUse(info.broker_id, owner)
        await zk.attempt(lambda: service.delete(path))


async def controller_epoch_now(zk: Zk) -> int:
    """Return the controller epoch in /controller_epoch as this session sees it; 0 if it is missing or invalid."""
    outcome = await zk.attempt(lambda: zk.service.get(znodes.CONTROLLER_EPOCH))
    return 0 if outcome.value is None else znodes.decode_controller_epoch(outcome.value[0]) or 0


async def read_controller(zk: Zk) -> ControllerSeen:
    """Return the current controller and the controller epoch."""
    service = zk.service
    holder, epoch = await zk.batch(
        [lambda: service.get(znodes.CONTROLLER), lambda: service.get(znodes.CONTROLLER_EPOCH)]
    )
    for outcome, path in ((holder, znodes.CONTROLLER), (epoch, znodes.CONTROLLER_EPOCH)):
        if outcome.error not in (ErrorCode.OK, ErrorCode.NO_NODE):
            raise error_for(outcome.error, path)
    broker_id, owner, version = -1, 0, 0
    if holder.value is not None:
        data, stat = holder.value
        found = znodes.decode_controller(data)
        if found is None:
            raise ValueError(f"{znodes.CONTROLLER} names no broker")
        broker_id, owner, version = found, stat.ephemeral_owner, stat.version
    if epoch.value is None:
        return ControllerSeen(broker_id, owner, version, 0, 0)
    data, stat = epoch.value
    number = znodes.decode_controller_epoch(data)
    if number is None:
        raise ValueError(f"{znodes.CONTROLLER_EPOCH} holds no number")
    return ControllerSeen(broker_id, owner, version, number, stat.version)


async def register_controller(zk: Zk, broker_id: int, timestamp_ms: int) -> Won | None:
    """Try to become controller: create /controller and increment /controller_epoch in one transaction.

    Return None if another broker was first.
    """
    service = zk.service
    seen = await _epoch(zk)
    new_epoch = seen.epoch + 1
    ops: list[Op] = [
        Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, timestamp_ms), ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(new_epoch), seen.epoch_zk_version),
    ]
    results = await zk.call(lambda: service.multi(ops))
    stat = results[1].stat
    if stat is not None:
        return Won(new_epoch, stat.version, stat.mzxid)
    error = next(r.error for r in results if r.error is not ErrorCode.OK)
    if error not in (ErrorCode.NODE_EXISTS, ErrorCode.BAD_VERSION):
        raise error_for(error, znodes.CONTROLLER)
    # Either another broker was faster, or our own first request was executed but its reply was lost.
    now = await read_controller(zk)
    ours = now.broker_id == broker_id and now.owner == service.session_id and now.epoch == new_epoch
    if not ours:
        return None
    epoch_stat = await zk.call(lambda: service.exists(znodes.CONTROLLER_EPOCH))
    if epoch_stat is None or epoch_stat.version != now.epoch_zk_version:
        return None
    return Won(new_epoch, epoch_stat.version, epoch_stat.mzxid)


async def _epoch(zk: Zk) -> ControllerSeen:
    """Return the content of /controller_epoch. Before the first election, create the znode with epoch 0."""
    while True:
        seen = await read_controller(zk)
        if seen.epoch or seen.epoch_zk_version:
            return seen
        made = await zk.attempt(lambda: zk.service.create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0)))
        if made.error is ErrorCode.OK:
            return seen
        if made.error is not ErrorCode.NODE_EXISTS:
            raise error_for(made.error, znodes.CONTROLLER_EPOCH)
        # Another broker has created the znode, and may have incremented the epoch already.
        again = await zk.call(lambda: zk.service.get(znodes.CONTROLLER_EPOCH))
        if again[1].version == 0:
            return seen


async def remove_any_controller(zk: Zk, epoch_zk_version: int) -> bool:
    """Delete /controller even if another session owns it (Historical.UNFENCED_CONTROLLER)."""
    removed = await zk.attempt(lambda: zk.service.delete(znodes.CONTROLLER))
    return removed.error is ErrorCode.OK


async def remove_controller(zk: Zk, epoch_zk_version: int) -> bool:
    """Delete /controller if /controller_epoch has not changed.

    Return False if it has changed, or if there is no controller.
    """
    ops: list[Op] = [Check(znodes.CONTROLLER_EPOCH, epoch_zk_version), Delete(znodes.CONTROLLER)]
    results = await zk.call(lambda: zk.service.multi(ops))
    return all(result.error is ErrorCode.OK for result in results)
