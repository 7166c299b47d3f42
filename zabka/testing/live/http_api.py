"""The HTTP API of a live cluster, as its tests call it."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import httpx

from zabka.testing.cluster import ClusterFailed

CALL_TIMEOUT_S = 60.0


class Refused(ClusterFailed):
    """The API answered, with an error; `status` is HTTP's."""

    def __init__(self, said: str, status: int) -> None:
        super().__init__(said)
        self.status = status


class HttpApi:
    """Calls the API at `url`; every call blocks until it is answered."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """`token` is what an API that does not listen on loopback wants.  Raises ClusterFailed where `url` is none."""
        self.url = url
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        try:
            self._client = httpx.Client(base_url=url, timeout=CALL_TIMEOUT_S, trust_env=False, headers=headers)
        except httpx.InvalidURL as reason:
            raise ClusterFailed(str(reason)) from None

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API; the answer's JSON, None where there is none.  Raises ClusterFailed, with a status Refused."""
        try:
            answer = self._client.request(method, path, json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as reason:
            raise ClusterFailed(f"{method} {path}: {reason!r}") from None
        if answer.is_error:
            raise Refused(f"{method} {path}: {answer.status_code} {answer.text}", answer.status_code)
        try:
            return answer.json() if answer.content else None
        except ValueError:
            raise ClusterFailed(f"{method} {path}: the answer is no JSON") from None

    def get(self, path: str) -> Any:
        """GET."""
        return self.request("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        """POST."""
        return self.request("POST", path, body)

    def post_and_forget(self, path: str, body: Any) -> None:
        """POST from a thread of its own; the answer is nobody's concern."""

        def call() -> None:
            with contextlib.suppress(httpx.HTTPError):
                httpx.post(f"{self.url}{path}", json=body, timeout=CALL_TIMEOUT_S, trust_env=False)

        thread = threading.Thread(target=call, name=f"POST {path}", daemon=True)
        thread.start()

    def close(self) -> None:
        """Close the connections to the API; the cluster goes on."""
        self._client.close()
