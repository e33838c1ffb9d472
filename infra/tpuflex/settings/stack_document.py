"""What a stack file says, as it was written. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from tpuflex.catalog.zones import region_of
from tpuflex.errors import Finding
from tpuflex.settings.model import NAMESPACE, StackSettings


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
    names = [name for name in document if isinstance(name, str)]
    findings = [
        Finding(name, "stands outside of config", "Indent it below `config:`.")
        for name in names
        if name.startswith(NAMESPACE)
    ]
    if "config" not in document:
        near = difflib.get_close_matches("config", names, n=1, cutoff=0.75)
        findings += (Finding(name, "unknown key", "Did you mean config?") for name in near)
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


GCP_NAMESPACE = "gcp:"
#: What a program of the user's own configures tpuflex's provider with, without the namespace.
PROVIDERS_OWN = frozenset({"project", "embedded"})
#: Settings of the provider that the endpoint's own always has from the stack's settings.
COVERED = ("project", "region", "zone")

_PLACE = "Write tpuflex:slice.zones; region and zone follow from it. Remove this key."
_REMEDIES = {
    "project": "Write tpuflex:project. Remove this key.",
    "region": _PLACE,
    "zone": _PLACE,
}
_REMEDY = (
    "Remove this key; in a program of your own, pass a gcp.Provider with it to VllmEndpoint"
    " (opts=ResourceOptions(providers=[...]))."
)


def ignored_keys(config: Mapping[str, object], sections: Mapping[str, object]) -> list[Finding]:
    """The keys of ``config`` that would be ignored; those of the gcp provider only where tpuflex's
    settings count, and not a program's of the user's own.

    Args:
        config: the stack's configuration, keys with their namespaces.
        sections: its sections of tpuflex, without the namespace, as they were written.
    """
    misspelt = [
        Finding(key, "unknown key", f"Did you mean {NAMESPACE}{key.partition(':')[2]}?")
        for key in config
        if isinstance(key, str) and _is_misspelt(key)
    ]
    if sections.keys() <= PROVIDERS_OWN:
        return misspelt
    agreed = {f"{GCP_NAMESPACE}{name}": values for name, values in _said(sections).items()}
    return misspelt + [
        Finding(
            key,
            "says something else than tpuflex's settings, which count"
            if key in agreed
            else "has no effect on what tpuflex makes",
            _REMEDIES.get(key.removeprefix(GCP_NAMESPACE), _REMEDY),
        )
        for key, value in config.items()
        if isinstance(key, str)
        and key.startswith(GCP_NAMESPACE)
        and value not in agreed.get(key, ())
    ]


def _is_misspelt(key: str) -> bool:
    """Whether ``key`` is one of tpuflex's but for a letter or so of its namespace. A project may be
    called nearly the same, and have keys of its own."""
    namespace, _, name = key.partition(":")
    ours = NAMESPACE.rstrip(":")
    if namespace == ours or name not in StackSettings.model_fields:
        return False
    return bool(difflib.get_close_matches(namespace.lower(), [ours], cutoff=0.85))


def _said(sections: Mapping[str, object]) -> dict[str, list[object]]:
    """What may be said of project and place again, because tpuflex's settings say the same."""
    slice_ = sections.get("slice")
    listed = slice_.get("zones") if isinstance(slice_, Mapping) else None
    zones = [zone for zone in listed if isinstance(zone, str)] if isinstance(listed, list) else []
    return {
        "project": [sections.get("project")],
        "region": [region_of(zone) for zone in zones],
        "zone": [*zones],
    }
