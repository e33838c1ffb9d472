"""Rewrite source to equivalent text in which decorated functions are plain ones.

mutmut skips decorated functions (its trampolines do not work behind a decorator), and with them
every method of the gRPC servicer and every property. So it is given

    def _Check_plain(self, request, context): ...
    Check = reported(_Check_plain)

instead of ``@reported def Check``. No line is added or lost, so that line numbers stay true.
"""

from __future__ import annotations

import ast

#: Decorators that mutmut handles by itself and that must stay on their functions.
_LEFT = frozenset({"staticmethod", "classmethod"})
_SUFFIX = "_plain"

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def undecorated(source: str) -> str:
    """``source`` with the only decorator of a function or method applied after its definition.
    Nested functions, and those with several decorators, stay as they are."""
    lines = source.splitlines()
    for function in _decorated(ast.parse(source)):
        (decorator,) = function.decorator_list
        indent = " " * function.col_offset
        plain = f"_{function.name}{_SUFFIX}"
        head = function.lineno - 1
        lines[head] = lines[head].replace(f"def {function.name}(", f"def {plain}(", 1)
        last = function.end_lineno or function.lineno
        applied = f"{indent}{function.name} = {ast.unparse(decorator)}({plain})"
        # The decorator's line is removed, and one that applies it is added.
        lines[decorator.lineno - 1 : last] = [*lines[decorator.end_lineno or 0 : last], applied]
    return "\n".join(lines) + "\n"


def original_name(name: str) -> str:
    """The source name of the function that mutmut calls ``name``."""
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
