"""What a row of the tables of resource types says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from embedded_cloud.gcp_plugin.call import CloudCall
from embedded_cloud.gcp_plugin.fields import Fields, Property
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from embedded_cloud.gcp_plugin.types import InvalidValueError
from pulumi_plugin.values import Properties, Value, has_unknown
from tpuflex.errors import TpuflexError

#: A rule over several properties of one resource: what is wrong, or ``None``.
Rule = Callable[[Properties], InvalidValueError | None]


class InvalidIdError(TpuflexError):
    """An id to import does not have one of the forms of its type."""


class MissingSettingError(TpuflexError):
    """Neither the resource nor its provider says which project or region."""


@dataclass(frozen=True, slots=True)
class Made:
    """A resource that exists.

    Attributes:
        id: its Pulumi id.
        state: its outputs.
    """

    id: str
    state: Properties


class IncompleteCreateError(TpuflexError):
    """The resource was asked for and may exist, but could not be waited for or read back.

    Attributes:
        made: what is known of it.
    """

    def __init__(self, made: Made, cause: TpuflexError) -> None:
        super().__init__(cause.message, hint=cause.hint)
        self.made = made


@dataclass(frozen=True, slots=True)
class Identity:
    """How the id of a type is spelt.

    Attributes:
        form: the id, with ``{property}`` for each part.
        imports: further spellings that an import may use; what a spelling leaves out is the
            provider's.
    """

    form: str
    imports: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the id's parts."""
        return tuple(re.findall(r"{(\w+)}", self.form))

    def parse(self, text: str, settings: ProviderSettings) -> dict[str, str]:
        """The parts of the id ``text``.

        Raises:
            InvalidIdError: it has none of the forms.
        """
        for form in (self.form, *self.imports):
            match = re.fullmatch(_pattern(form), text)
            if match:
                found = {"project": settings.project, "region": settings.region}
                return {name: value for name, value in found.items() if value} | match.groupdict()
        forms = ", ".join((self.form, *self.imports))
        raise InvalidIdError(f"import id {text!r} does not have an accepted form: {forms}")


def _pattern(form: str) -> str:
    parts = re.split(r"{(\w+)}", form)
    # Roles and resource names have slashes: ids that hold them are separated by spaces.
    letters = "[^ ]+" if " " in form else "[^/ ]+"
    return "".join(
        f"(?P<{part}>{letters})" if at % 2 else re.escape(part) for at, part in enumerate(parts)
    )


@dataclass(frozen=True, slots=True)
class ManagedMap:
    """A map of which the program manages its own keys and leaves others alone.

    Attributes:
        name: the property, ``labels`` or ``annotations``; also its name in the REST resource.
        effective: the output that holds all keys on the resource.
        combined: the output that holds the program's keys and the provider's default ones;
            empty when the provider adds none to this map.
        removes_by_null: the API merges maps, so that a key goes away by being set to null.
    """

    name: str
    effective: str
    combined: str = ""
    removes_by_null: bool = False


class Behaviour(Protocol):
    """How resources of a type live in the REST API."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Make the resource and read it back."""

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state of a resource last known as ``made``; ``None`` when it is gone."""

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Change what ``inputs`` changes and answer the state after it."""

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Remove the resource; one that is gone already is fine."""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One type that the stand-in serves.

    Attributes:
        token: Pulumi's type token.
        title: its name in messages.
        properties: everything that the published class has and the stand-in honours.
        identity: how its id is spelt.
        behaviour: how it lives in the REST API.
        autonamed: the property that gets a generated name when the program gives none.
        maps: its managed maps.
        rules: rules over several properties.
        replaces_when: further conditions under which a change of a property replaces.
        foreseen: parts of the id that follow from inputs, as format strings.
        derived: outputs computed from others, as format strings.
        unserved: what the published class has and the stand-in refuses, by name.
    """

    token: str
    title: str
    properties: Fields
    identity: Identity
    behaviour: Behaviour
    autonamed: str = ""
    maps: tuple[ManagedMap, ...] = ()
    rules: tuple[Rule, ...] = ()
    replaces_when: Mapping[str, Callable[[Value, Value], bool]] = field(default_factory=dict)
    foreseen: Mapping[str, str] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    unserved: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Property, ...]:
        """The properties that a program may set."""
        return tuple(item for item in self.properties if item.is_input)

    def property(self, name: str) -> Property | None:
        """The property called ``name``."""
        return next((item for item in self.properties if item.name == name), None)

    def scoped(self, values: Properties, settings: ProviderSettings) -> Properties:
        """``values`` with the provider's project and region where the resource names none."""
        defaults: Properties = {"project": settings.project, "region": settings.region}
        wanted = {name for name in defaults if self.property(name)}
        return {name: defaults[name] for name in wanted if defaults[name]} | values

    def identify(self, values: Properties) -> str | None:
        """The id that a resource with ``values`` has; ``None`` while a part is not known."""
        known = {k: v for k, v in values.items() if isinstance(v, str) and not has_unknown(v)}
        try:
            for name, form in self.foreseen.items():
                if name not in known:
                    known[name] = form.format_map(known)
            return self.identity.form.format_map(known)
        except KeyError:
            return None


def scope_of(values: Properties) -> dict[str, str]:
    """The project and region that short references of a resource are completed with."""
    return {name: str(values.get(name) or "") for name in ("project", "region")}
