"""Source text that means the same, with its decorated functions in plain sight.

mutmut leaves decorated functions alone (its trampolines cannot stand behind a decorator), and with
them every method of the gRPC face and every property. So it is shown

    def _Check_plain(self, request, context): ...
    Check = reported(_Check_plain)

instead of ``@reported def Check``. No line is added or lost, so that line numbers stay true.
"""

from __future__ import annotations

import ast

#: What mutmut handles by itself, and what must stay on its function.
_LEFT = frozenset({"staticmethod", "classmethod"})
_SUFFIX = "_plain"

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def undecorated(source: str) -> str:
    """``source`` with each decorator that stands alone on a function or a method applied after
    it. Functions inside of functions, and those with several decorators, stay as they are."""
    lines = source.splitlines()
    for function in _decorated(ast.parse(source)):
        (decorator,) = function.decorator_list
        indent = " " * function.col_offset
        plain = f"_{function.name}{_SUFFIX}"
        head = function.lineno - 1
        lines[head] = lines[head].replace(f"def {function.name}(", f"def {plain}(", 1)
        last = function.end_lineno or function.lineno
        applied = f"{indent}{function.name} = {ast.unparse(decorator)}({plain})"
        # The decorator's line goes, and the one that applies it comes.
        lines[decorator.lineno - 1 : last] = [*lines[decorator.end_lineno or 0 : last], applied]
    return "\n".join(lines) + "\n"


def original_name(name: str) -> str:
    """The name in the source of a function that mutmut calls ``name``."""
    inner = name.removeprefix("_").removesuffix(_SUFFIX)
    return inner if name == f"_{inner}{_SUFFIX}" else name


def _decorated(module: ast.Module) -> list[_Function]:
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    bodies = [module.body, *(found.body for found in classes)]
    functions = [
        node
        for body in bodies
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [function for function in functions if _alone(function)]


def _alone(function: _Function) -> bool:
    if len(function.decorator_list) != 1:
        return False
    (decorator,) = function.decorator_list
    single = decorator.lineno == decorator.end_lineno == function.lineno - 1
    return single and not (isinstance(decorator, ast.Name) and decorator.id in _LEFT)
