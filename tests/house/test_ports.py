"""Code that stores histories uses files and threads only through ports, so that the simulated world can replace
them.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDS_ON_PORTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / "ensemble" / "txnlog").glob("*.py"),
        ROOT / "broker_sim" / "logs" / "background_sync.py",
        ROOT / "broker_sim" / "logs" / "file_log_directory.py",
        *(ROOT / "ensemble" / "server" / "operator").glob("restor*.py"),
        ROOT / "ensemble" / "server" / "operator" / "http_body.py",
        ROOT / "ensemble" / "server" / "operator" / "on_demand_snapshots.py",
        ROOT / "ensemble" / "server" / "process" / "ownership.py",
        ROOT / "ensemble" / "server" / "config" / "dynamic_config.py",
    )
)
CONSTANTS_OF_OS = {"strerror", "getpid", "SEEK_DATA", "SEEK_HOLE", "POSIX_FADV_DONTNEED"}
PATHS_OWN_IO = {
    "chmod", "exists", "glob", "is_dir", "is_file", "iterdir", "lstat", "mkdir", "read_bytes", "read_text", "replace",
    "rglob", "rmdir", "samefile", "symlink_to", "touch", "write_bytes", "write_text",
}  # fmt: skip
OF_BOTH = {"open", "rename", "resolve", "stat", "unlink"}
"""Methods that both `pathlib.Path` and the file port have. The object's name shows which one is called."""
THREADS = {"Thread", "ThreadPoolExecutor", "Timer", "to_thread", "run_in_executor", "sleep"}


def _calls(tree: ast.Module) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _is_constant(attribute: ast.Attribute) -> bool:
    return attribute.attr in CONSTANTS_OF_OS or attribute.attr.startswith("O_")


def _bypasses(tree: ast.Module) -> list[str]:
    """Return the places where a module uses files or threads without a port."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("os", "io"):
            if not _is_constant(node) and node.attr != "RawIOBase":
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found += [f"line {node.lineno}: {name}" for name in names if name in ("shutil", "tempfile", "subprocess")]
    for call in _calls(tree):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        # A call of `replace` with two arguments is str.replace; Path.replace has one.
        of_a_path = name in PATHS_OWN_IO and owner and not (name == "replace" and len(call.args) == 2)
        on_no_port = name in OF_BOTH and owner and not owner.endswith(("files", "_inner", "_directory", "directory"))
        if of_a_path and owner.endswith("files"):
            of_a_path = False
        if (name == "open" and not owner) or (name in THREADS) or of_a_path or on_no_port:
            found.append(f"line {call.lineno}: {ast.unparse(call)}")
    return found


@pytest.mark.parametrize("name", STANDS_ON_PORTS)
def test_files_and_threads_are_used_only_through_ports(name: str) -> None:
    assert _bypasses(ast.parse((ROOT / name).read_text())) == []


@pytest.mark.parametrize(
    "line",
    [
        "os.fsync(3)",
        "write = os.pwrite",
        "open(path)",
        "path.open('rb')",
        "path.read_text()",
        "path.rename(other)",
        "path.replace(other)",
        "path.stat().st_size",
        "import shutil",
        "threading.Thread(target=f)",
        "await asyncio.to_thread(f)",
        "time.sleep(1)",
    ],
)
def test_direct_use_of_files_or_threads_is_detected(line: str) -> None:
    assert _bypasses(ast.parse(line)) != []


@pytest.mark.parametrize(
    "line", ["files.fsync(3)", "self._files.open(path, os.O_RDWR)", "text.replace('a', 'b')", "files.rename(a, b)"]
)
def test_file_access_through_a_port_interface_is_accepted(line: str) -> None:
    assert _bypasses(ast.parse(line)) == []


def _takes_files(name: str) -> set[str]:
    """Return the functions and classes of a module whose file system parameter defaults to the host's file system."""
    tree = ast.parse((ROOT / name).read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            inits = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            found |= {node.name for init in inits if _has_files(init)}
        elif isinstance(node, ast.FunctionDef) and node.name != "__init__" and _has_files(node):
            found.add(node.name)
    return found


def _has_files(function: ast.FunctionDef) -> bool:
    return any(argument.arg == "files" for argument in (*function.args.args, *function.args.kwonlyargs))


TAKE_FILES = set().union(*(_takes_files(name) for name in STANDS_ON_PORTS)) - {"save", "unlink"}


def _without_files(tree: ast.Module) -> list[str]:
    """Return the calls that do not pass the file system on, and therefore use the default file system."""
    return [
        f"line {call.lineno}: {ast.unparse(call)}"
        for call in _calls(tree)
        if isinstance(call.func, ast.Name)
        and call.func.id in TAKE_FILES
        and not any(ast.unparse(argument).endswith("files") for argument in call.args)
        and not any(keyword.arg == "files" for keyword in call.keywords)
    ]


@pytest.mark.parametrize("name", STANDS_ON_PORTS)
def test_file_system_parameter_is_passed_to_every_inner_call(name: str) -> None:
    """Each inner call passes on the file system parameter.

    Only the outermost caller may use the host's file system as default.
    """
    assert _without_files(ast.parse((ROOT / name).read_text())) == []


def test_missing_file_system_argument_is_detected() -> None:
    assert _without_files(ast.parse("sync_directory(path)")) == ["line 1: sync_directory(path)"]
