"""Reads and writes the znodes under /config that contain overrides (kafka.zk.AdminZkClient).

Each write includes a change notification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from kio.schema.errors import ErrorCode as KafkaError

from zabka.broker_sim.configs.entity_configs import CHANGE_PREFIX
from zabka.broker_sim.refusals import Refused
from zabka.ensemble.client.service import Check, Create, Delete, OpResult, SetData
from zabka.ensemble.errors import ErrorCode, NoNode, error_for
from zabka.kafka.zk import znodes
from zabka.kafka.zk.coordination import Zk
from zabka.kafka.zk.registration import create_recursive
from zabka.kafka.zk.znodes import DEFAULT_ENTITY, ZNODE_BYTES_MAX


def node_name(name: str | None) -> str:
    """Return the znode name of an entity (org.apache.kafka.common.utils.Sanitizer)."""
    return DEFAULT_ENTITY if name is None else quote(name, safe="").replace("~", "%7E")


class EntityZnodes:
    """Reads and writes the overrides of one entity: "topics/T", "brokers/N", "users/U/clients/C".

    A tool that writes before any broker runs does not need a controller.
    """

    def __init__(self, zk: Zk, needs_controller: bool = True) -> None:
        self._zk = zk
        self._needs_controller = needs_controller

    async def read(self, entity: str) -> tuple[dict[str, str], int]:
        """Return an entity's overrides and the version of their znode.

        If the znode does not exist, the overrides are empty and the version is -1.
        """
        try:
            data, stat = await self._zk.call(lambda: self._zk.service.get(f"/config/{entity}"))
        except NoNode:
            return {}, -1
        return znodes.decode_config(data or b"") or {}, stat.version

    async def names(self, kind: str) -> list[str]:
        """Return the names of the entities below /config/`kind`, sorted."""
        try:
            return sorted(await self._zk.call(lambda: self._zk.service.get_children(f"/config/{kind}")))
        except NoNode:
            return []

    async def write(self, entity: str, overrides: Mapping[str, str], version: int) -> bool:
        """Write overrides if their znode has this version, and notify every broker. Return False on a version conflict.

        If a controller is needed, the write succeeds only if there is one, and only if it does not change during the
        write (KAFKA-16539). Raises Refused, ZooKeeperError.
        """
        zk, service, path = self._zk, self._zk.service, f"/config/{entity}"
        data = znodes.encode_config(overrides)
        if len(data) > ZNODE_BYTES_MAX:
            raise Refused(KafkaError.invalid_config, f"The configuration exceeds {ZNODE_BYTES_MAX} bytes.")
        checks = await self._checks()
        parent = path.rpartition("/")[0]
        if version < 0 and parent.count("/") > 2:
            await create_recursive(zk, parent, None)
        write = Create(path, data) if version < 0 else SetData(path, data, version)
        results = await zk.call(lambda: service.multi([*checks, write, _notice(entity)]))
        if results[len(checks)].error in (ErrorCode.BAD_VERSION, ErrorCode.NODE_EXISTS, ErrorCode.NO_NODE):
            # If the znode already has the data of this request, our first transmission wrote it and its response was
            # lost.
            return (await self.read(entity))[0] == overrides and await self._notify(entity)
        if checks and results[0].error in (ErrorCode.NO_NODE, ErrorCode.BAD_VERSION):
            raise Refused(KafkaError.stale_controller_epoch, "The controller changed meanwhile.")
        _raise_first(results, path)
        return True

    async def _checks(self) -> list[Check]:
        """Return the check that the controller stays the same. Raises Refused if there is none but one is needed."""
        if not self._needs_controller:
            return []
        controller = await self._zk.call(lambda: self._zk.service.exists(znodes.CONTROLLER))
        if controller is None:
            raise Refused(KafkaError.stale_controller_epoch, "There is no controller to take the change up.")
        return [Check(znodes.CONTROLLER, controller.version)]

    async def clear(self, entity: str, version: int) -> bool:
        """Remove the znode of an entity whose last override was removed. Return False on a version conflict.

        Also remove "users/U/clients" and "users/U" if they are empty afterwards. If the znode has children, write empty
        overrides instead. Raises Refused, ZooKeeperError.
        """
        if version < 0:
            return await self._notify(entity)
        path = f"/config/{entity}"
        results = await self._zk.call(lambda: self._zk.service.multi([Delete(path, version), _notice(entity)]))
        deleted = results[0].error
        if deleted is ErrorCode.NOT_EMPTY:
            return await self.write(entity, {}, version)
        if deleted is ErrorCode.BAD_VERSION:
            return False
        if deleted is not ErrorCode.NO_NODE:
            _raise_first(results, path)
        user, clients, _ = entity.partition("/clients/")
        if clients:
            # ZooKeeper rejects this delete if the znode still has children. In that case, leave the znode.
            await self._zk.attempt(lambda: self._zk.service.delete(f"/config/{user}/clients"))
            overrides, user_version = await self.read(user)
            if not overrides and user_version >= 0:
                await self._zk.attempt(lambda: self._zk.service.delete(f"/config/{user}", user_version))
        # NO_NODE: the znode was already deleted, perhaps by our first transmission, whose response was lost. Notify
        # the brokers in that case as well.
        return await self._notify(entity) if deleted is ErrorCode.NO_NODE else True

    async def _notify(self, entity: str) -> bool:
        notice = _notice(entity)
        await self._zk.call(lambda: self._zk.service.create(notice.path, notice.data, sequential=True))
        return True


def _notice(entity: str) -> Create:
    """Return the operation that creates the change notification, in the same transaction as the change.

    Kafka writes the notification after that transaction. If a broker fails in between, no broker is notified.
    """
    path = f"{znodes.CONFIG_CHANGES}/{CHANGE_PREFIX}"
    return Create(path, znodes.encode_config_change(entity), sequential=True)


def _raise_first(results: Sequence[OpResult], path: str) -> None:
    failed = next((result.error for result in results if result.error is not ErrorCode.OK), None)
    if failed is not None:
        raise error_for(failed, path)
