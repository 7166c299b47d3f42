"""HTTP client for the API of a live cluster, for tests."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any

from zabka.agent.http_call import Answer, NoAnswer, call
from zabka.agent.protocol import REQUESTER_HEADER
from zabka.testing.cluster import ClusterFailed

CALL_TIMEOUT_S = 60.0


class Refused(ClusterFailed):
    """The API returned an error response; `status` is its HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class HttpApi:
    """Client of the HTTP API at `url`. Every call blocks until the response arrives, and is possible in any thread."""

    def __init__(self, url: str, token: str | None = None) -> None:
        """Set the API's URL, and the `token` that the API requires if it is secured or not on loopback."""
        self.url = url
        self.requester = "fixture"
        """Name of the requester of faults, as written to the journal."""
        self._token = token

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API. Return the JSON of the response, or None if the response has no JSON.

        Raises ClusterFailed, or Refused for an error status.
        """
        try:
            answer = self._call(method, path, body)
        except NoAnswer as reason:
            raise ClusterFailed(f"{method} {path}: {reason}") from None
        if answer.status >= 400:
            raise Refused(f"{method} {path}: {answer.status} {answer.body.decode(errors='replace')}", answer.status)
        try:
            return json.loads(answer.body) if answer.body else None
        except ValueError:
            raise ClusterFailed(f"{method} {path}: the response is not JSON") from None

    def _call(self, method: str, path: str, body: Any) -> Answer:
        headers = {REQUESTER_HEADER: self.requester}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        sent = b""
        if body is not None:
            headers["content-type"] = "application/json"
            sent = json.dumps(body).encode()
        return call(method, f"{self.url.rstrip('/')}{path}", sent, headers, timeout_s=CALL_TIMEOUT_S)

    def get(self, path: str) -> Any:
        """Send GET and return the JSON of the response."""
        return self.request("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        """Send POST and return the JSON of the response."""
        return self.request("POST", path, body)

    def post_and_forget(self, path: str, body: Any) -> None:
        """Send POST from a separate thread, and ignore the response."""

        def post() -> None:
            with contextlib.suppress(NoAnswer):
                self._call("POST", path, body)

        thread = threading.Thread(target=post, name=f"POST {path}", daemon=True)
        thread.start()

    def close(self) -> None:
        """Do nothing: calls do not leave connections open, and the cluster must continue to run."""
