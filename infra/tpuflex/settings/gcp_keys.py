"""Keys of the gcp provider in a stack file. The endpoint makes a provider of its own, which takes
nothing from them: a key that says something else than the stack's settings is refused."""

from __future__ import annotations

from collections.abc import Mapping

from tpuflex.catalog.zones import region_of
from tpuflex.errors import Finding

NAMESPACE = "gcp:"
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
    """The keys of ``config`` that would be ignored.

    Args:
        config: the stack's configuration, keys with their namespaces.
        sections: its sections of tpuflex, without the namespace, as they were written.
    """
    agreed = {f"{NAMESPACE}{name}": values for name, values in _said(sections).items()}
    return [
        Finding(
            key,
            "says something else than tpuflex's settings, which count"
            if key in agreed
            else "has no effect on what tpuflex makes",
            _REMEDIES.get(key.removeprefix(NAMESPACE), _REMEDY),
        )
        for key, value in config.items()
        if isinstance(key, str) and key.startswith(NAMESPACE) and value not in agreed.get(key, ())
    ]


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
