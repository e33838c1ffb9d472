"""The sections that an endpoint is given, some of whose values are known only later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pulumi

from tpuflex.components.inputs import endpoint_inputs
from tpuflex.components.known_later import (
    empty_findings,
    known_together,
    secret_finding,
    split,
    unplanned_findings,
    with_values,
)
from tpuflex.errors import Finding, SettingsError
from tpuflex.planning.checkpoint import Checkpoint
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings

_SOURCE = "VllmEndpointArgs"
T = TypeVar("T")
U = TypeVar("U")


class Given:
    """The sections of an endpoint, checked as far as they are known, and again as soon as more is.

    Attributes:
        settings: what is known. In the place of what is known later are stand-ins, which nothing
            may be made with: take that from :meth:`known`.
    """

    settings: StackSettings

    def __init__(
        self, sections: Mapping[str, object], checkpoint: Checkpoint | None = None
    ) -> None:
        """Check what is known; of the model's files that is ``checkpoint``.

        Raises:
            pulumi.RunError: it is wrong, or an output stands where none can; lists every finding.
        """
        self._sections, later = split(sections)
        self._checkpoint = checkpoint
        self.settings = self._parsed(self._sections)
        self._later = {key: _open(key, value) for key, value in later.items()}
        self._known: dict[tuple[str, ...], pulumi.Output[StackSettings]] = {}

    def known(self, *keys: str) -> pulumi.Input[StackSettings]:
        """The settings in which ``keys`` have their values, as soon as these are known and right.
        A wrong one fails the operation: what needs it is not made.

        Args:
            keys: dotted keys without the namespace, of the table of what may be known later.
        """
        later = tuple(key for key in known_together(*keys) if key in self._later)
        if not later:
            return self.settings
        if later not in self._known:
            values = pulumi.Output.all(**{key: self._later[key] for key in later})
            self._known[later] = values.apply(self._checked)
        return self._known[later]

    def is_later(self, *keys: str) -> bool:
        """Whether one of ``keys`` is known only later."""
        return any(key in self._later for key in known_together(*keys))

    def inputs(self) -> dict[str, pulumi.Input[Any]]:
        """The sections as the entry of the endpoint in the state shows them."""
        shown = endpoint_inputs(self.settings)
        values = {key: when_known(self.known(key), _reader(key)) for key in self._later}
        return with_values(shown, values)

    def _parsed(self, sections: Mapping[str, object]) -> StackSettings:
        try:
            return parse(sections, _SOURCE, lambda _: self._checkpoint)
        except SettingsError as error:
            raise pulumi.RunError(str(error)) from error

    def _checked(self, values: Mapping[str, object]) -> StackSettings:
        if empty := empty_findings(values):
            raise _refusal(*empty)
        settings = self._parsed(with_values(self._sections, values))
        if unplanned := unplanned_findings(self.settings, settings):
            raise _refusal(*unplanned)
        return settings


def when_known(value: pulumi.Input[T], change: Callable[[T], U]) -> pulumi.Input[U]:
    """``change`` of ``value``: at once if it is plain, else as soon as it is known."""
    if isinstance(value, pulumi.Output):
        return value.apply(change)
    return change(value)  # type: ignore[arg-type]


def labels_of(given: Given) -> pulumi.Input[Mapping[str, str]] | None:
    """Labels of the user's, if there are any."""
    return when_known(given.known("labels"), lambda found: found.labels) or None


def _open(key: str, value: object) -> pulumi.Output[Any]:
    """``value``, which fails the operation if it is a secret, also while it is unknown."""
    members = value.items() if isinstance(value, Mapping) else ()
    named = {f"{key}.{name}": item for name, item in members if isinstance(item, pulumi.Output)}
    whole: pulumi.Output[Any] = pulumi.Output.from_input(value)

    async def opened() -> pulumi.Output[Any]:
        if await whole.is_secret():
            secret = [name for name, item in named.items() if await item.is_secret()]
            raise _refusal(*(secret_finding(key, place) for place in secret or [key]))
        return whole

    return pulumi.Output.from_input(opened())


def _refusal(*findings: Finding) -> pulumi.RunError:
    return pulumi.RunError(str(SettingsError(_SOURCE, findings)))


def _reader(key: str) -> Callable[[StackSettings], object]:
    """Reads ``key`` of settings, as JSON."""

    def read(settings: StackSettings) -> object:
        value: Any = settings.model_dump(mode="json")
        for name in key.split("."):
            value = value[name]
        return value

    return read
