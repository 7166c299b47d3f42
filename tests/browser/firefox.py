"""The system's Firefox without a window, driven over Marionette: WebDriver commands as JSON on a socket."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("firefox-esr", "firefox")
STARTS_S = 60.0
WAIT_S = 30.0
POLL_S = 0.05
PREFERENCES = {
    "marionette.port": 0,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.enabled": False,
    "network.proxy.type": 0,
    "ui.prefersReducedMotion": 1,
}
KEYS = {"ArrowLeft": "\ue012", "ArrowRight": "\ue014", "Home": "\ue011", "End": "\ue010"}
COMPLAINTS = """
  const own = (text) => text !== null && text !== undefined && String(text).startsWith(arguments[0]);
  const found = [];
  for (const each of Services.console.getMessageArray()) {
    if (!(each instanceof Ci.nsIScriptError) || each.flags & Ci.nsIScriptError.infoFlag) continue;
    if (!own(each.sourceName) || each.category.includes("CSS")) continue;
    found.push(`${each.sourceName}:${each.lineNumber} ${each.errorMessage}`);
  }
  const storage = Cc["@mozilla.org/consoleAPI-storage;1"].getService(Ci.nsIConsoleAPIStorage);
  for (const each of storage.getEvents()) {
    if (!own(each.filename) || !["error", "warn"].includes(each.level)) continue;
    found.push(`${each.level}: ${each.arguments.join(" ")}`);
  }
  return found;
"""


class Refused(Exception):
    """Firefox rejected a command. The message gives Firefox's reason."""


def installed() -> str:
    """Return the path of Firefox. Skip the test if Firefox is missing: the page also has tests in Chromium."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("needs Firefox on the PATH; Chromium sees the rest of the page's tests")
    return found


class Firefox:
    """A Firefox process with one page."""

    def __init__(self, directory: Path, width: int = 1440, height: int = 900) -> None:
        profile = directory / "profile"
        profile.mkdir()
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()]
        (profile / "user.js").write_text("".join(lines))
        argv = [
            installed(), "--headless", "--marionette", "--remote-allow-system-access", "--no-remote",
            "--profile", str(profile), "--width", str(width), "--height", str(height),
        ]  # fmt: skip
        self._log = (directory / "firefox.log").open("wb")
        # Use a temporary home directory, so that Firefox finds no other profile and leaves no files.
        self._process = subprocess.Popen(
            argv, stdout=self._log, stderr=self._log, env={"HOME": str(directory), "MOZ_HEADLESS": "1"}
        )
        self._number = 0
        try:
            self._socket = socket.create_connection(("127.0.0.1", self._port(profile)), STARTS_S)
            self._read()
            self.command("WebDriver:NewSession", {"capabilities": {"alwaysMatch": {"pageLoadStrategy": "normal"}}})
            self.command("WebDriver:SetWindowRect", {"width": width, "height": height})
        except BaseException:
            self._end()
            raise

    def _port(self, profile: Path) -> int:
        until = time.monotonic() + STARTS_S
        port_file = profile / "MarionetteActivePort"
        while not port_file.exists() or not port_file.read_text():
            assert self._process.poll() is None, "Firefox exited during its start"
            assert time.monotonic() < until, "Firefox does not start"
            time.sleep(POLL_S)
        return int(port_file.read_text())

    def _read(self) -> Any:
        """Read one Marionette message: its length, a colon and JSON."""
        length = b""
        while (byte := self._socket.recv(1)) != b":":
            assert byte, "Firefox has closed the connection"
            length += byte
        body = b""
        while len(body) < int(length):
            body += self._socket.recv(int(length) - len(body))
        return json.loads(body)

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Send a command and return its result. Raises Refused."""
        self._number += 1
        body = json.dumps([0, self._number, name, arguments or {}]).encode()
        self._socket.sendall(b"%d:%s" % (len(body), body))
        _, number, error, result = self._read()
        assert number == self._number
        if error is not None:
            raise Refused(f"{error['error']}: {error['message']}")
        return result

    def go(self, url: str) -> None:
        """Open a page and wait until it has loaded."""
        self.command("WebDriver:Navigate", {"url": url})

    def ask(self, program: str, *arguments: Any) -> Any:
        """Run a JavaScript function body in the page, wait for its promise if it returns one, and return the value."""
        return self.command("WebDriver:ExecuteScript", {"script": program, "args": list(arguments)})["value"]

    def until(self, program: str, *arguments: Any) -> None:
        """Wait until a JavaScript function body returns true in the page."""
        until = time.monotonic() + WAIT_S
        while not self.ask(program, *arguments):
            assert time.monotonic() < until, f"not true within {WAIT_S} s: {program}"
            time.sleep(POLL_S)

    def press(self, *keys: str) -> None:
        """Press the keys one after the other."""
        actions = [
            {"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")
        ]  # fmt: skip
        self.command("WebDriver:PerformActions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def complaints(self, url: str) -> list[str]:
        """Return the console messages about files whose address starts with `url`, except style sheets."""
        found: list[str] = self._ask_browser(COMPLAINTS, url)
        return found

    def disconnect(self) -> None:
        """Turn the network off, as the menu item Work Offline does."""
        self._ask_browser("Services.io.offline = true")
        assert self._ask_browser("return Services.io.offline")

    def _ask_browser(self, program: str, *arguments: Any) -> Any:
        """Run a JavaScript function body in the browser itself, not in the page, and return the value."""
        self.command("Marionette:SetContext", {"value": "chrome"})
        try:
            return self.ask(program, *arguments)
        finally:
            self.command("Marionette:SetContext", {"value": "content"})

    def screenshot(self, path: Path) -> None:
        """Save a screenshot of the window as PNG."""
        image = self.command("WebDriver:TakeScreenshot", {"full": False})["value"]
        path.write_bytes(base64.b64decode(image))

    def quit(self) -> None:
        """Quit the browser."""
        self._socket.close()
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
