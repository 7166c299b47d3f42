"""Apply a mutant to modules that are already imported: their functions get the code of the changed module.

This makes a mutant cheap, because no module is imported again. The process that has collected all tests forks. The
child changes some functions in place, runs the tests that cover them, and exits.
"""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterator
from types import CodeType, FunctionType

from tests.mutation.mutants import ROOT, Mutant, modules, mutated

Place = tuple[str, str, int]


class RunningFunctions:
    """All functions of the packages in this process, keyed by file, name and line."""

    def __init__(self) -> None:
        files = {str(ROOT / path) for path in modules()}
        self._functions: dict[Place, list[FunctionType]] = defaultdict(list)
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename in files:
                self._functions[_place(found.__code__)].append(found)

    def apply(self, mutant: Mutant) -> bool:
        """Replace the code of the changed functions.

        Return False if the mutant changes only code that runs on import.
        """
        before = _functions_of(mutant.path, ast.parse((ROOT / mutant.path).read_text()))
        applied = False
        for place, changed in _functions_of(mutant.path, mutated(mutant.path, mutant.number)).items():
            for function in self._functions.get(place, ()):
                if changed != before[place] and function.__code__ == before[place]:
                    if len(function.__code__.co_freevars) != len(changed.co_freevars):
                        return False
                    function.__code__ = changed
                    applied = True
        return applied


def _functions_of(path: str, tree: ast.Module) -> dict[Place, CodeType]:
    return {_place(code): code for code in _within(compile(tree, str(ROOT / path), "exec", dont_inherit=True))}


def _place(code: CodeType) -> Place:
    return (code.co_filename, code.co_qualname, code.co_firstlineno)


def _within(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _within(constant)
