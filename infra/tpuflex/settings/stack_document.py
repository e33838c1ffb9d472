"""What a stack file says, as it was written. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tpuflex.errors import Finding
from tpuflex.settings.model import NAMESPACE


def config_of(document: object) -> Mapping[str, object]:
    """The configuration in a stack file; empty where that has none."""
    config = document.get("config") if isinstance(document, dict) else None
    return config if isinstance(config, dict) else {}


def secrets_provider_of(document: object) -> str:
    """The secrets provider that a stack file names, such as ``gcpkms://…``; empty where it names
    none."""
    named = document.get("secretsprovider") if isinstance(document, dict) else None
    return str(named) if named else ""


def sections_of(document: object) -> tuple[dict[str, object], list[Finding]]:
    """The ``tpuflex:`` keys of a stack file, without their namespace, and what is wrong with its
    keys; those of other namespaces are left alone."""
    if document is None:
        return {}, []
    if not isinstance(document, dict):
        finding = Finding("config", "the file is not a section", "Write `config:` first.")
        return {}, [finding]
    config = document.get("config")
    findings = [
        Finding(name, "stands outside of config", "Indent it below `config:`.")
        for name in document
        if isinstance(name, str) and name.startswith(NAMESPACE)
    ]
    if config is None:
        return {}, findings
    if not isinstance(config, dict):
        return {}, [*findings, Finding("config", "is not a section", "Write keys below it.")]
    sections: dict[str, object] = {}
    for name, value in config.items():
        if not isinstance(name, str):
            findings.append(Finding("config", f"{name!r} cannot be a key", "Write it in quotes."))
        elif not name.strip():
            findings.append(Finding("config", "has a key without a name", "Remove it."))
        elif name.startswith(NAMESPACE):
            sections[name.removeprefix(NAMESPACE)] = value
        elif ":" not in name:
            findings.append(Finding(name, "has no namespace", f"Write {NAMESPACE}{name}."))
    return sections, findings
