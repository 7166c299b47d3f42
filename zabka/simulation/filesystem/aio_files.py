"""Calls of aiofiles on a simulated disk.

aiofiles calls the built-in `open` and functions of `os` and `os.path` in an executor. In a simulated program, each of
these calls is replaced by the same call on the disk of the program's machine. Relative paths start at the root. Methods
of an open file need no replacement, because the file that `open_file` returns is already on the simulated disk.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from zabka.simulation.filesystem.process_files import BUFFER_BYTES, ProcessFiles, SimStat
from zabka.simulation.filesystem.volume import trouble

LIBRARY = "aiofiles"
ROOT = Path("/")

Call = Callable[..., Any]


def on_disk(call: object, files: ProcessFiles) -> Call | None:
    """Return the call on a simulated disk that replaces a call of aiofiles, or None if the disk does not support it.

    A call that opens no file and uses no path, such as a method of an open file, is returned unchanged.
    """
    if not isinstance(call, partial):
        return cast(Call, call)
    if call.func is open:
        if call.keywords.get("opener") is not None or isinstance(call.args[0], int):
            return None
        return partial(open_file, files, *call.args, **call.keywords)
    replacement = _CALLS.get(call.func)
    if replacement is not None:
        return partial(replacement, files, *call.args, **call.keywords)
    return None if _is_of_host(call.func) else call


def _is_of_host(function: object) -> bool:
    """Return whether a function uses files of the host: those of `os` and `tempfile`, and classes."""
    return getattr(function, "__module__", None) in ("os", "posix", "posixpath", "genericpath", "tempfile")


def path_of(path: Any) -> Path:
    """Return a program's path on its machine's disk."""
    return Path(os.path.normpath(ROOT / os.fsdecode(path)))


class _Unbuffered(io.BufferedWriter):
    """A stream that writes immediately, as a file that is opened with `buffering=0`."""

    def write(self, data: Any, /) -> int:
        written = super().write(data)
        self.flush()
        return written


def open_file(
    files: ProcessFiles,
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: None = None,
) -> IO[Any]:
    """Open a file like the built-in `open`.  `file` can also be a `SimPath`.  Raises OSError and ValueError."""
    if not isinstance(file, str | bytes | os.PathLike):
        return cast(IO[Any], file.open(mode, encoding or "utf-8"))
    if sum(mode.count(each) for each in "rwax") != 1 or ("b" in mode and "t" in mode):
        raise ValueError(f"invalid mode: {mode!r}")
    plain = mode.replace("t", "").replace("b", "")
    binary = files.stream(path_of(file), f"{plain[0]}b+" if "+" in plain else f"{plain}b")
    if "b" in mode:
        return _unbuffered(binary) if buffering == 0 else binary
    if buffering == 0:
        binary.close()
        raise ValueError("can't have unbuffered text I/O")
    text = io.TextIOWrapper(binary, encoding or "utf-8", errors, newline, line_buffering=buffering == 1)
    vars(text)["mode"] = mode
    return text


def _unbuffered(stream: IO[bytes]) -> IO[bytes]:
    if not isinstance(stream, io.BufferedWriter):
        return stream
    return cast(IO[bytes], _Unbuffered(stream.detach(), BUFFER_BYTES))


# -- os ----------------------------------------------------------------------------------------------------------------


def _make_directories(files: ProcessFiles, name: Any, mode: int = 0o777, exist_ok: bool = False) -> None:
    path = path_of(name)
    missing = [each for each in (path, *path.parents) if not _exists(files, each)]
    if not missing and not (exist_ok and _is_directory(files, path)):
        raise trouble(errno.EEXIST, path)
    for each in reversed(missing):
        files.mkdir(each)


def _remove_directories(files: ProcessFiles, name: Any) -> None:
    path = path_of(name)
    files.rmdir(path)
    try:
        for parent in path.parents[:-1]:
            files.rmdir(parent)
    except OSError:
        # As os.removedirs does: a parent that is not empty stays.
        return


def _status(files: ProcessFiles, path: Any, **_: Any) -> SimStat:
    return files.stat(path_of(path))


def _exists(files: ProcessFiles, path: Any) -> bool:
    return _has_kind(files, path, lambda _: True)


def _is_directory(files: ProcessFiles, path: Any) -> bool:
    return _has_kind(files, path, stat.S_ISDIR)


def _has_kind(files: ProcessFiles, path: Any, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(files.stat(path_of(path)).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _changed_s(files: ProcessFiles, path: Any) -> float:
    return files.stat(path_of(path)).st_mtime


def _renamed(files: ProcessFiles, source: Any, target: Any) -> None:
    files.rename(path_of(source), path_of(target))


_CALLS: dict[object, Call] = {
    os.stat: _status,
    os.rename: _renamed,
    os.replace: _renamed,
    os.remove: lambda files, path: files.unlink(path_of(path)),
    os.unlink: lambda files, path: files.unlink(path_of(path)),
    os.mkdir: lambda files, path, mode=0o777: files.mkdir(path_of(path)),
    os.makedirs: _make_directories,
    os.rmdir: lambda files, path: files.rmdir(path_of(path)),
    os.removedirs: _remove_directories,
    os.listdir: lambda files, path=".": files.listdir(path_of(path)),
    os.access: lambda files, path, mode: _exists(files, path),
    os.getcwd: lambda files: str(ROOT),
    os.path.abspath: lambda files, path: str(path_of(path)),
    os.path.exists: _exists,
    os.path.isfile: lambda files, path: _has_kind(files, path, stat.S_ISREG),
    os.path.isdir: _is_directory,
    os.path.islink: lambda files, path: False,
    os.path.getsize: lambda files, path: files.stat(path_of(path)).st_size,
    os.path.getmtime: _changed_s,
    os.path.getatime: _changed_s,
    os.path.getctime: _changed_s,
}
"""Replacements of functions that aiofiles calls; the first argument is the disk."""
