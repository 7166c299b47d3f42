"""Layout of the packages: which package can import which, and which modules of Python pure packages can use."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.house.packages import ROOT, files_of, module_of, name_of, nodes_of, package_of

MAY_IMPORT: dict[str, set[str]] = {
    "journal": set(),
    "ensemble": {"journal"},
    "kafka": {"ensemble", "journal"},
    "controller": {"kafka", "ensemble", "journal"},
    "broker_sim": {"controller", "kafka", "ensemble", "journal"},
    "simulation": {"broker_sim", "controller", "kafka", "ensemble", "journal"},
    "pipeline": {"simulation", "broker_sim", "controller", "kafka", "ensemble", "journal"},
    "agent": {"ensemble", "journal"},
    "api": {"agent", "simulation", "broker_sim", "controller", "kafka", "ensemble", "journal"},
    "compose": {"agent", "api", "broker_sim", "controller", "kafka", "ensemble", "journal"},
    "testing": {"compose", "agent", "api", "simulation", "broker_sim", "controller", "kafka", "ensemble", "journal"},
    "cli": {
        "testing", "compose", "agent", "api", "pipeline", "simulation", "broker_sim", "controller", "kafka", "ensemble",
        "journal",
    },
}  # fmt: skip
ENSEMBLE_LAYERS: dict[str, set[str]] = {
    "base": {"records"},
    "records": {"base"},
    "runtime": {"base", "records"},
    "auth": {"base", "records"},
    "zab": {"auth", "base", "records"},
    "tree": {"zab", "auth", "base", "records"},
    "txnlog": {"runtime", "tree", "zab", "auth", "base", "records"},
    "client": {"runtime", "auth", "base", "records"},
    "server": {"runtime", "txnlog", "tree", "zab", "auth", "base", "records"},
}
"""Parts of `ensemble` that each part can import. `base` are the modules outside the parts (ids, jute, txn, …)."""
SHELLS = {
    "zabka/journal/writer.py",
    "zabka/journal/high_watermark_files.py",
    "zabka/journal/reader.py",
    "zabka/journal/rules/source_lines.py",
    "zabka/journal/sentence_file.py",
    "zabka/journal/message_log.py",
    "ensemble/client/__init__.py",  # re-exports the next one, on demand
    "ensemble/client/aio.py",
    "ensemble/client/asyncio_connector.py",
    "ensemble/client/client_tap.py",
    "ensemble/client/history_clients.py",
    "ensemble/client/kazoo.py",
    "broker_sim/logs/background_sync.py",
    "broker_sim/logs/file_log_directory.py",
    "broker_sim/kafka_port.py",
    "broker_sim/listener_stores.py",
    "broker_sim/password_encoder.py",
    "broker_sim/request_times.py",
    "broker_sim/client_security.py",
    "broker_sim/ensemble_security.py",
    "broker_sim/secure_kafka_port.py",
    "broker_sim/sasl/http_exchange.py",
    "broker_sim/sasl/key_download.py",
    "broker_sim/sasl/token_download.py",
    "broker_sim/sasl/sasl_connection.py",
    "broker_sim/sasl/token_verifiers.py",
    "zabka/kafka/channel.py",
    "zabka/kafka/channel_security.py",
    "zabka/kafka/kafka_tap.py",
    "zabka/kafka/wire/frames.py",
    "broker_sim/broker_process.py",
    "broker_sim/process_log.py",
    "broker_sim/environment.py",
}
SHELL_FOLDERS = ("ensemble/runtime/", "ensemble/server/", "ensemble/txnlog/", "ensemble/client/shim/")
PURE_PACKAGES = ("journal", "ensemble", "kafka", "controller", "broker_sim")
TOUCHES_THE_WORLD = {
    "asyncio", "concurrent", "datetime", "fcntl", "httpx", "io", "logging", "mmap", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "sched", "ssl", "structlog",
    "subprocess", "sys", "tempfile", "threading", "time", "uuid", "uvloop", "kazoo", "fastapi", "importlib",
    "bench", "tests",
}  # fmt: skip
MAY_NOT_CALL = {"open", "print", "input", "eval", "exec", "hash", "id", "__import__"}


def is_pure(path: Path) -> bool:
    name = name_of(path)
    return package_of(module_of(path)) in PURE_PACKAGES and name not in SHELLS and not name.startswith(SHELL_FOLDERS)


def imports(path: Path) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for node in nodes_of(name_of(path)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.lineno, node.module))
    return found


PURE_MODULES = [name_of(path) for package in PURE_PACKAGES for path in files_of(package) if is_pure(path)]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_package_imports_only_lower_packages(package: str) -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in files_of(package)
        for line, name in imports(path)
        if (top := package_of(name)) in MAY_IMPORT and top != package and top not in MAY_IMPORT[package]
    ]
    assert wrong == []


def ensemble_layer(module: str) -> str:
    """Return the part of `ensemble` to which a module belongs."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 and parts[2] in ENSEMBLE_LAYERS else "base"


@pytest.mark.parametrize("layer", ENSEMBLE_LAYERS)
def test_ensemble_package_imports_only_lower_packages(layer: str) -> None:
    wrong = [
        f"{name_of(path)}:{line} imports {name}"
        for path in files_of("ensemble")
        if ensemble_layer(module_of(path)) == layer
        for line, name in imports(path)
        if package_of(name) == "ensemble" and ensemble_layer(name) not in {layer, *ENSEMBLE_LAYERS[layer]}
    ]
    assert wrong == []


def test_every_ensemble_package_has_a_layer() -> None:
    folders = {path.name for path in (ROOT / "ensemble").iterdir() if (path / "__init__.py").is_file()}
    assert folders | {"base"} == set(ENSEMBLE_LAYERS)


def test_every_module_listed_as_impure_exists() -> None:
    assert [name for name in sorted(SHELLS) if not (ROOT / name).exists()] == []


def test_pure_module_imports_no_io_module() -> None:
    wrong = [
        f"{name}:{line}: {module}"
        for name in PURE_MODULES
        for line, module in imports(ROOT / name)
        if module.split(".")[0] in TOUCHES_THE_WORLD or module.startswith("kio.serial")
    ]
    assert wrong == []


def test_pure_module_imports_no_impure_module() -> None:
    shells = {module_of(ROOT / shell) for shell in (*SHELLS, *SHELL_FOLDERS) if not shell.endswith("__init__.py")}
    wrong = [
        f"{name}:{line}: {module}"
        for name in PURE_MODULES
        for line, module in imports(ROOT / name)
        if any(module == shell or module.startswith(shell + ".") for shell in shells)
    ]
    assert wrong == []


def test_pure_module_calls_no_function_that_varies_by_process() -> None:
    wrong = [
        f"{name}:{node.lineno}: {node.func.id}()"
        for name in PURE_MODULES
        for node in nodes_of(name)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in MAY_NOT_CALL
        # A __hash__ method can call hash(), because no order of iteration depends on the result.
        and not (node.func.id == "hash" and _inside_dunder_hash(name, node.lineno))
    ]
    assert wrong == []


def _inside_dunder_hash(name: str, line: int) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name == "__hash__" and node.lineno <= line <= (node.end_lineno or 0)
        for node in nodes_of(name)
    )


ORDERLESS = {"sorted", "len", "min", "max", "sum", "any", "all", "set", "frozenset", "bool"}


SET_OPERATORS = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)
SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}


class _SetIterations(ast.NodeVisitor):
    """Find loops over sets, whose order is not deterministic.

    An expression counts as a set if it is a set literal, a call of set(), a name annotated or assigned as a set, or the
    result of an operator on sets or on dictionaries' keys() and items().
    """

    def __init__(self, nodes: Sequence[ast.AST]) -> None:
        self.names: set[str] = set()
        self.found: list[int] = []
        self._excused: set[ast.AST] = set()
        for node in nodes:
            if isinstance(node, ast.AnnAssign) and self._is_set_annotation(node.annotation):
                self.names.add(ast.unparse(node.target))
            elif isinstance(node, ast.Assign) and self._makes_set(node.value):
                self.names.update(ast.unparse(target) for target in node.targets)
            elif isinstance(node, ast.arg) and node.annotation is not None and self._is_set_annotation(node.annotation):
                self.names.add(node.arg)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ORDERLESS:
                self._excused.update(node.args)
            elif isinstance(node, ast.SetComp):
                self._excused.add(node)

    @staticmethod
    def _is_set_annotation(annotation: ast.expr) -> bool:
        text = ast.unparse(annotation)
        return text.startswith(("set[", "frozenset[", "Set[", "AbstractSet[")) or text in {"set", "frozenset"}

    def _makes_set(self, value: ast.expr) -> bool:
        match value:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Call(func=ast.Name(id="set" | "frozenset")):
                return True
            case ast.Call(func=ast.Attribute(attr=method)):
                return method in SET_METHODS
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, SET_OPERATORS):
                return any(self._is_view(side) or self._is_set(side) for side in (left, right))
        return False

    @staticmethod
    def _is_view(value: ast.expr) -> bool:
        return (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr in {"keys", "items"}
        )

    def _is_set(self, value: ast.expr) -> bool:
        return self._makes_set(value) or ast.unparse(value) in self.names

    def _check(self, node: ast.expr) -> None:
        if self._is_set(node):
            self.found.append(node.lineno)

    def visit_For(self, node: ast.For) -> None:
        self._check(node.iter)
        self.generic_visit(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        if node not in self._excused:
            for generator in node.generators:
                self._check(generator.iter)
        self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in {"list", "tuple", "iter", "enumerate", "dict"}:
            for argument in node.args:
                self._check(argument)
        self.generic_visit(node)


def set_iterations(nodes: Sequence[ast.AST]) -> list[int]:
    """Return the lines that iterate over a set. The first node is the module."""
    visitor = _SetIterations(nodes)
    visitor.visit(nodes[0])
    return visitor.found


@pytest.mark.parametrize(
    "loop",
    [
        "for x in {1, 2}: pass",
        "for x in set(y): pass",
        "for x in a.keys() - b.keys(): pass",
        "for x in a.items() & b: pass",
        "[x for x in b | a.keys()]",
        "c = a.keys() ^ b\nfor x in c: pass",
        "c: set[int] = f()\nlist(c - d)",
        "tuple(a.union(b))",
    ],
)
def test_loop_over_a_set_is_detected(loop: str) -> None:
    assert len(set_iterations(tuple(ast.walk(ast.parse(loop))))) == 1


@pytest.mark.parametrize(
    "loop", ["for x in a.keys(): pass", "for x in sorted(a.keys() - b): pass", "for x in a - b: pass"]
)
def test_loop_over_an_ordered_collection_is_not_reported(loop: str) -> None:
    assert set_iterations(tuple(ast.walk(ast.parse(loop)))) == []


def test_pure_module_does_not_iterate_over_a_set() -> None:
    found = {name: lines for name in PURE_MODULES if (lines := set_iterations(nodes_of(name)))}
    assert found == {}, "these lines iterate over a set; sort it, or use a dict"
