"""kazoo's TransactionRequest, implemented with zabka's client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from zabka.ensemble.client.shim.state import KazooSession
from zabka.ensemble.client.shim.types import from_multi, to_acls
from zabka.ensemble.records import (
    CheckVersionRequest,
    CreateRequest,
    DeleteRequest,
    MultiOp,
    MultiRequest,
    MultiResponse,
    OpCode,
    SetDataRequest,
)

Send = Callable[[OpCode, MultiRequest, Callable[[Any], Any]], Any]
"""Function that sends a request and returns kazoo's IAsyncResult.

The third argument converts the response.
"""


def _expect(name: str, value: object, kind: type, what: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"Invalid type for '{name}' ({what} expected)")


class TransactionRequest:
    """Collects operations; `commit` sends them as one request. Not thread-safe."""

    def __init__(self, client: KazooSession, send: Send) -> None:
        self.client = client
        self._send = send
        self.operations: list[MultiOp] = []
        self.committed = False

    def create(
        self, path: str, value: bytes = b"", acl: Any = None, ephemeral: bool = False, sequence: bool = False
    ) -> None:
        """Add a create operation."""
        acl = acl or self.client.default_acl
        _expect("path", path, str, "string")
        if acl and not isinstance(acl, tuple | list):
            raise TypeError("Invalid type for 'acl' (acl must be a tuple/list of ACL's")
        _expect("value", value, bytes, "byte string")
        _expect("ephemeral", ephemeral, bool, "bool")
        _expect("sequence", sequence, bool, "bool")
        acls = to_acls(OPEN_ACL_UNSAFE if acl is None else acl)
        flags = (1 if ephemeral else 0) | (2 if sequence else 0)
        self._add(OpCode.CREATE, CreateRequest(self.client._prefixed(path), value, acls, flags))

    def delete(self, path: str, version: int = -1) -> None:
        """Add a delete operation."""
        _expect("path", path, str, "string")
        _expect("version", version, int, "int")
        self._add(OpCode.DELETE, DeleteRequest(self.client._prefixed(path), version))

    def set_data(self, path: str, value: bytes, version: int = -1) -> None:
        """Add a setData operation."""
        _expect("path", path, str, "string")
        _expect("value", value, bytes, "byte string")
        _expect("version", version, int, "int")
        self._add(OpCode.SET_DATA, SetDataRequest(self.client._prefixed(path), value, version))

    def check(self, path: str, version: int) -> None:
        """Add a check that a znode is at this version."""
        _expect("path", path, str, "string")
        _expect("version", version, int, "int")
        self._add(OpCode.CHECK, CheckVersionRequest(self.client._prefixed(path), version))

    def commit_async(self) -> Any:
        """Call `commit` without waiting for the reply."""
        self._check_not_committed()
        self.committed = True
        return self._send(OpCode.MULTI, MultiRequest(self.operations), self._results)

    def commit(self) -> list[Any]:
        """Send the operations as one request; return one result for each.

        The result of an operation that failed or was rolled back is an exception object.
        """
        results: list[Any] = self.commit_async().get()
        return results

    def __enter__(self) -> TransactionRequest:
        return self

    def __exit__(self, exc_type: object, exc_value: object, exc_tb: object) -> None:
        if not exc_type:
            self.commit()

    def _results(self, response: MultiResponse) -> list[Any]:
        results = from_multi(response)
        return [self.client.unchroot(result) if isinstance(result, str) else result for result in results]

    def _check_not_committed(self) -> None:
        if self.committed:
            raise ValueError("Transaction already committed")

    def _add(self, op: OpCode, body: CreateRequest | DeleteRequest | SetDataRequest | CheckVersionRequest) -> None:
        self._check_not_committed()
        self.operations.append(MultiOp(op, body))
