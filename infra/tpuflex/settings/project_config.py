"""The ``config:`` of a project file: what every stack has that says nothing else itself. Pure.

Read as the engine reads it (``mergeConfig`` in pulumi's ``pkg/workspace/config.go``, and
``RewriteShorthandConfigValues`` in its ``sdk/go/common/workspace/project.go``; documented at
https://www.pulumi.com/docs/iac/concepts/config/#project-level-configuration): a key that the stack
file has, has its value from there, whole; sections are not merged. So no command needs the engine
to know them, and a test compares both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tpuflex.errors import Finding, Position
from tpuflex.settings.model import NAMESPACE
from tpuflex.settings.plain import SECURE_REMEDY
from tpuflex.settings.stack_document import GCP_NAMESPACE
from tpuflex.settings.stack_yaml import Document

PROJECT_FILE = "Pulumi.yaml"
#: What a key that is not a plain value may hold (``configTypeDeclaration`` in pulumi's
#: ``project.json``).
_DECLARATION = {"type", "items", "description", "secret", "default", "value"}


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """What a project file says for all of its stacks, of tpuflex and of the gcp provider.

    Attributes:
        values: by full key, such as ``tpuflex:slice``.
        findings: what is wrong.
        positions: where each key stands, by its dotted path as in a stack file.
    """

    values: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    positions: Mapping[str, Position] = field(default_factory=dict)

    def sections(self) -> dict[str, object]:
        """The values of tpuflex, without its namespace."""
        return {
            key.removeprefix(NAMESPACE): value
            for key, value in self.values.items()
            if key.startswith(NAMESPACE)
        }

    def without(self, keys: Iterable[object]) -> ProjectConfig:
        """What is left of it for a stack that has ``keys`` itself."""
        own = {*keys}
        values = {key: value for key, value in self.values.items() if key not in own}
        findings = tuple(one for one in self.findings if one.key not in own)
        positions = {key: at for key, at in self.positions.items() if section(key) not in own}
        return ProjectConfig(values, findings, positions)


def section(key: str) -> str:
    """The key of the section that ``key``, a path such as ``tpuflex:slice.zones``, leads into."""
    return re.split(r"[.\[]", key, maxsplit=1)[0]


def project_config(document: Document) -> ProjectConfig:
    """The configuration in the project file ``document``; empty where it has none."""
    top = document.value if isinstance(document.value, dict) else {}
    config = top.get("config")
    if not isinstance(config, dict):
        return ProjectConfig()
    values: dict[str, object] = {}
    findings: list[Finding] = []
    positions: dict[str, Position] = {}
    for written, declared in config.items():
        if not isinstance(written, str):
            continue  # the engine reads no such file
        key = written if ":" in written else f"{top.get('name')}:{written}"
        if not key.startswith((NAMESPACE, GCP_NAMESPACE)):
            continue
        positions |= _positions(document.positions, written, key)
        wrong = _wrong(key, declared, own=key.startswith(f"{top.get('name')}:"))
        if wrong is not None:
            findings.append(wrong)
        elif not isinstance(declared, dict):
            values[key] = declared
        elif _said(declared):
            values[key] = _said(declared)[0]
    return ProjectConfig(values, tuple(findings), positions)


def _wrong(key: str, declared: object, *, own: bool) -> Finding | None:
    """Why the engine takes no value from ``declared``, or we do not."""
    if "." in key or "[" in key:
        return Finding(key, "is a path into a section", "Write the whole section, below `value:`.")
    if declared is None:
        return Finding(key, "has no value", "Write one, or remove it.")
    if not isinstance(declared, dict):
        return None
    if not declared.keys() <= _DECLARATION:
        remedy = f"Write it below `value:`, as in {key}: {{value: {{…}}}}."
        return Finding(key, "is a section that Pulumi does not read in a project file", remedy)
    if declared.get("secret"):
        return Finding(key, "is declared as a secret", SECURE_REMEDY)
    if len(_said(declared)) > 1:
        return Finding(key, "has both `default` and `value`", "Remove one of them.")
    if not own and "value" not in declared:
        return Finding(key, "has no `value`", "Write one below it; `default` is for keys of the"
                       " project's own name.")  # fmt: skip
    return None


def _said(declared: Mapping[str, object]) -> list[object]:
    found = (declared.get(name) for name in ("default", "value"))
    return [value for value in found if value is not None]


def _positions(positions: Mapping[str, Position], written: str, key: str) -> dict[str, Position]:
    """Where what stands at ``written`` is, as if it stood at ``key`` in a stack file."""
    found: dict[str, Position] = {}
    for path, position in positions.items():
        rest = path.removeprefix(written)
        if rest == path or (rest and rest[0] not in ".["):
            continue
        for declaration in (".value", ".default"):
            if rest == declaration or rest.startswith((f"{declaration}.", f"{declaration}[")):
                rest = rest.removeprefix(declaration)
                break
        found.setdefault(f"{key}{rest}", replace(position, file=PROJECT_FILE))
    return found
