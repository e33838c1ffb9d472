"""Which inputs of an endpoint may be known later than its plan, such as outputs of other resources.

Names, cost, the memory plan and which resources are made must not depend on them. Until they are
known, stand-ins let everything else be checked. Pure.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass

import pulumi

from tpuflex.errors import Finding
from tpuflex.settings.model import NAMESPACE, StackSettings
from tpuflex.settings.plain import Refused

#: Deeper than settings may be; what contains itself is refused when they are read.
_DEEPEST = 32
_NAME = "known-later"
#: Nobody's range (TEST-NET-2, https://www.rfc-editor.org/rfc/rfc5737).
_RANGE = "198.51.100.0/24"


@dataclass(frozen=True, slots=True)
class Later:
    """What is known of a key whose value may be known later.

    Attributes:
        stand_in: what takes the place of the value until it is known; of a list or a mapping, the
            members may be known later, too, one by one.
        readable: where the value can be read, which is why it cannot be a secret.
    """

    stand_in: str | list[str] | dict[str, str]
    readable: str = "it can be read by whoever may look into the project"


#: By key, without the namespace.
LATER: Mapping[str, Later] = {
    "slice.rerun": Later(_NAME),
    "model.weights.manifest_sha256": Later("0" * 64),
    "serving.env": Later(
        {},
        "the container's environment is in the node's boot metadata, which can be read on the host"
        " and in the API",
    ),
    "network.name": Later(_NAME),
    "network.subnetwork": Later(_NAME),
    "network.subnetwork_cidr": Later(_RANGE),
    "network.allowed_cidrs": Later([_RANGE]),
    "network.tags": Later([_NAME]),
    "identity.service_account": Later(f"{_NAME}@{_NAME}.iam.gserviceaccount.com"),
    "labels": Later({}),
}

#: Keys that say one thing, and are known together.
_TOGETHER = (("network.name", "network.subnetwork"),)

#: Why the rest of a section cannot be known later, or a key where there is more to say.
_WHY = {
    "cloud": "where everything runs is decided",
    "project": "names and permissions are made of it",
    "slice": "zones, chips and the cost of a run are planned with it",
    "model": "the place of the weights and the memory plan are worked out from it",
    "model.weights.bucket": "the endpoint says which bucket it has (`bucket`), and its own, the"
    " library's or one of yours makes other resources,",
    "serving": "image, flags and the memory plan are checked with it",
    "network": "which resources are made for the network is planned with it",
    "secrets": "which secrets are made, and who reads them, is planned with it",
    "secrets.api_key": "the endpoint says which version it has (`api_key_secret`)",
    "identity": "which account and roles are made is planned with it",
    "encryption": "where the key is, is compared with the zones",
    "manage_apis": "which resources are made is planned with it",
    "catalog": "every other section is checked with its rows",
}
_PLAIN = (
    "Write the value itself, of the stack's configuration for example (pulumi.Config); of another"
    " stack, the `value` of what StackReference.get_output_details gives an async program."
)
_IF_NONE = "If it is none, write pulumi.Output.unsecret(…)."
_IN_ENVIRONMENT = (
    "Keep it in Secret Manager: `tpuflex secrets` does so for what the hosts fetch (API key,"
    f" certificate, metrics key), and no other secret reaches the container. {_IF_NONE}"
)


def split(sections: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """What is known of ``sections``, with stand-ins; and, by key, what is known later.

    What may not be known later is :class:`Refused` in the first.
    """
    later: dict[str, object] = {}
    return {name: _known(value, name, later, 0) for name, value in sections.items()}, later


def with_values(sections: Mapping[str, object], values: Mapping[str, object]) -> dict[str, object]:
    """``sections`` with ``values``, by key, in their places."""
    result = dict(sections)
    for key, value in values.items():
        name, _, rest = key.partition(".")
        inner = result.get(name)
        within = inner if isinstance(inner, Mapping) else {}
        result[name] = with_values(within, {rest: value}) if rest else value
    return result


def known_together(*keys: str) -> tuple[str, ...]:
    """``keys`` and those that are known together with them."""
    groups = (next((each for each in _TOGETHER if key in each), (key,)) for key in keys)
    return tuple(dict.fromkeys(key for group in groups for key in group))


def secret_finding(key: str, place: str) -> Finding:
    """What is wrong with a secret in ``place``, which is ``key`` or a member of it."""
    remedy = _IN_ENVIRONMENT if key == "serving.env" else _IF_NONE
    return Finding(f"{NAMESPACE}{place}", f"is a secret, and {LATER[key].readable}", remedy)


def empty_findings(values: Mapping[str, object]) -> list[Finding]:
    """What is wrong with values that turned out to be none."""
    return [
        Finding(f"{NAMESPACE}{key}", "turned out to be empty", "Give it a value, or leave it out.")
        for key, value in values.items()
        if value is None
    ]


def unplanned_findings(planned: StackSettings, settings: StackSettings) -> list[Finding]:
    """What of ``settings``, now that they are known, would have needed another plan than the one
    that was made with the stand-ins of ``planned``."""
    findings: list[Finding] = []
    if planned.network.allowed_cidrs and not settings.network.allowed_cidrs:
        findings.append(
            Finding(
                f"{NAMESPACE}network.allowed_cidrs",
                "turned out to be an empty list, for which there would be no firewall rule, and"
                " one without ranges would let everybody in",
                "Give it a range at least, or leave it out.",
            )
        )
    if planned.serving.kept_programs != settings.serving.kept_programs:
        findings.append(
            Finding(
                f"{NAMESPACE}serving.env",
                "names a directory for compiled programs, and whether the endpoint's bucket keeps"
                " them is planned before that is known",
                "Write compile_cache: none in tpuflex:serving.",
            )
        )
    return findings


def is_later(value: object) -> bool:
    """Whether ``value`` is an output, a future or a coroutine."""
    return isinstance(value, pulumi.Output) or inspect.isawaitable(value)


def _known(value: object, key: str, later: dict[str, object], depth: int) -> object:
    row = LATER.get(key)
    if row is not None and _has_later(value, row):
        later[key] = value
        if is_later(value):
            return row.stand_in
    elif is_later(value) or isinstance(value, pulumi.Resource):
        return _refused(value, key)
    if depth > _DEEPEST:
        return value
    members = row.stand_in if row is not None and key in later else None
    if isinstance(value, Mapping):
        return {
            name: _known(item, f"{key}.{name}", later, depth + 1)
            for name, item in value.items()
            if not (isinstance(members, dict) and is_later(item))
        }
    if isinstance(value, (list, tuple)):
        return [
            members[0]
            if isinstance(members, list) and is_later(item)
            else _known(item, f"{key}[{index}]", later, depth + 1)
            for index, item in enumerate(value)
        ]
    return value


def _has_later(value: object, row: Later) -> bool:
    """Whether ``value``, or a member of it that ``row`` allows it for, is known later."""
    match row.stand_in, value:
        case dict(), Mapping():
            return any(map(is_later, value.values()))
        case list(), list() | tuple():
            return any(map(is_later, value))
        case _:
            return is_later(value)


def _refused(value: object, key: str) -> Refused:
    if isinstance(value, Coroutine):
        value.close()  # nobody awaits it any more
    takes = [name for name in LATER if name.startswith(f"{key}.")]
    if isinstance(value, pulumi.Resource):
        return Refused("is a resource", "Write what is meant of it, such as its id.")
    what = "an Output" if isinstance(value, pulumi.Output) else "known later"
    section = key.partition(".")[0].partition("[")[0]
    why = _WHY.get(key) or _WHY.get(section, "the plan is made with it")
    remedy = f"Write a mapping. In it, these may be: {', '.join(takes)}." if takes else _PLAIN
    return Refused(f"is {what}, but {why} before anything exists", remedy)
