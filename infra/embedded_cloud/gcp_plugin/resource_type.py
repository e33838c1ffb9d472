"""The rows of the tables of resource types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from embedded_cloud.gcp_plugin.call import CloudCall
from embedded_cloud.gcp_plugin.fields import Fields, Property
from embedded_cloud.gcp_plugin.settings import ProviderSettings
from embedded_cloud.gcp_plugin.types import InvalidValueError
from pulumi_plugin.values import Properties, Value, has_unknown
from tpuflex.errors import ApiError, TpuflexError

#: A rule over several properties of one resource: what is wrong, or ``None``.
Rule = Callable[[Properties], InvalidValueError | None]


class InvalidIdError(TpuflexError):
    """An id to import does not have one of the forms of its type."""


class MissingSettingError(TpuflexError):
    """Neither the resource nor its provider has a project, region or other part of the id."""


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
    """The create request was sent, but the resource could not be waited for or read back.

    Attributes:
        made: the resource as far as it is known.
    """

    def __init__(self, made: Made, cause: TpuflexError) -> None:
        super().__init__(cause.message, hint=cause.hint)
        self.made = made


@contextmanager
def creation_of(made: Made) -> Iterator[None]:
    """Wait in the block for the creation of ``made``, which may exist when the wait fails.

    Raises:
        IncompleteCreateError: the wait was cut short, or polling failed.
    """
    try:
        yield
    except TpuflexError as error:
        if isinstance(error, ApiError) and not error.status:
            raise  # the operation itself failed: there is nothing
        raise IncompleteCreateError(made, error) from error


def require_created(title: str, made: Made, present: Made | None) -> Made:
    """``present``, which was read after ``made`` was created.

    Raises:
        IncompleteCreateError: there is none.
    """
    if present is None:
        gone = ApiError(f"{title} {made.id} is not there after it was created", status=404)
        raise IncompleteCreateError(made, gone)
    return present


@dataclass(frozen=True, slots=True)
class Identity:
    """The forms of the ids of a type.

    Attributes:
        form: the id, with ``{property}`` for each part.
        imports: further forms that an import may use; parts that a form leaves out are the
            provider's.
        deep: parts that are names of resources themselves, with slashes.
    """

    form: str
    imports: tuple[str, ...] = ()
    deep: tuple[str, ...] = ()

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
            match = re.fullmatch(_pattern(form, self.deep), text)
            if match:
                defaults = {"project": settings.project, "region": settings.region}
                return {k: v for k, v in defaults.items() if v} | match.groupdict()
        forms = ", ".join((self.form, *self.imports))
        raise InvalidIdError(f"import id {text!r} does not have an accepted form: {forms}")


def _pattern(form: str, deep: tuple[str, ...]) -> str:
    parts = re.split(r"{(\w+)}", form)
    # Ids with roles and resource names, which have slashes, are separated by spaces.
    letters = "[^ ]+" if " " in form else "[^/ ]+"
    return "".join(
        f"(?P<{part}>{'[^ ]+' if part in deep else letters})" if at % 2 else re.escape(part)
        for at, part in enumerate(parts)
    )


@dataclass(frozen=True, slots=True)
class ManagedMap:
    """A map of which the program manages only its own keys.

    Attributes:
        name: the property, ``labels`` or ``annotations``; also its name in the REST resource.
        effective: the output that holds all keys on the resource.
        combined: the output that holds the program's keys and the provider's defaults; empty
            when the provider has no defaults for this map.
        removes_by_null: the API merges maps, so a key is removed by setting it to null.
    """

    name: str
    effective: str
    combined: str = ""
    removes_by_null: bool = False


class Behaviour(Protocol):
    """How resources of a type live in the REST API."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Create the resource and read it back."""

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state of a resource last known as ``made``; ``None`` when it is gone."""

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Apply what differs in ``inputs``; returns the state afterwards."""

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Delete the resource, unless it is gone already."""


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One type that the stand-in serves.

    Attributes:
        token: Pulumi's type token.
        title: its name in messages.
        properties: the properties of the published class that the stand-in serves.
        identity: the forms of its ids.
        behaviour: how it lives in the REST API.
        autonamed: the property that gets a generated name when the program gives none.
        maps: its managed maps.
        rules: rules over several properties.
        replaces_when: further conditions under which a change of a property replaces.
        predicted: parts of the id that follow from inputs, as format strings.
        derived: outputs computed from others, as format strings.
        unserved: the properties of the published class that the stand-in refuses.
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
    predicted: Mapping[str, str] = field(default_factory=dict)
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
        """``values`` with the provider's project and region as defaults."""
        defaults: Properties = {"project": settings.project, "region": settings.region}
        return {k: v for k, v in defaults.items() if v and self.property(k)} | values

    def identify(self, values: Properties) -> str | None:
        """The id of a resource with ``values``; ``None`` while a part is unknown."""
        known = {k: v for k, v in values.items() if isinstance(v, str) and not has_unknown(v)}
        try:
            for name, form in self.predicted.items():
                if name not in known:
                    known[name] = form.format_map(known)
            return self.identity.form.format_map(known)
        except KeyError:
            return None


def scope_of(values: Properties) -> dict[str, str]:
    """The project and region that short references of a resource are completed with."""
    return {name: str(values.get(name) or "") for name in ("project", "region")}
