"""How much of Google's refusals and delays the embedded cloud imitates, by area.

By default none: everything is known, allowed and there at once, so that a first try and most tests
need no set-up. :data:`STRICT` is the preset of ``tpuflex emulator start --strict``.

An area is a frozen dataclass whose defaults are lenient, a field of :class:`Strictness`, and a
line of :data:`STRICT`. Whoever enforces it reads ``context.strictness().<area>`` at each call.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cache
from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from embedded_cloud.errors import invalid_argument
from embedded_cloud.json_types import JsonObject, merge

#: An area and all that is in it refuse keys and types that they do not know.
_EXACT = ConfigDict(extra="forbid", strict=True)

#: Seconds on the cloud's clock; at most three hundred years, so that sums of them are still dates.
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=10_000_000_000, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Apis:
    """APIs have to be enabled in a project before they answer.

    Attributes:
        enforced: an API that is not enabled answers 403 SERVICE_DISABLED.
        bare_projects: no API is enabled in a project at first, as in one that is made through an
            API; otherwise those are that Google enables in every new project.
        answers_after_s: from the moment an API is enabled until it answers. 55 to 60 s were seen
            for Compute Engine (https://github.com/skypilot-org/skypilot/pull/1197).
    """

    __pydantic_config__ = _EXACT

    enforced: bool = False
    bare_projects: bool = False
    answers_after_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Strictness:
    """All areas, by name."""

    __pydantic_config__ = _EXACT

    apis: Apis = Apis()

    @property
    def areas(self) -> tuple[str, ...]:
        """Names of the areas that are not lenient."""
        lenient = Strictness()
        names = (field.name for field in dataclasses.fields(self))
        return tuple(name for name in names if getattr(self, name) != getattr(lenient, name))

    def to_json(self) -> JsonObject:
        """The form that :meth:`from_json` reads, complete."""
        document: JsonObject = _adapter().dump_python(self, mode="json")
        return document

    @classmethod
    def from_json(cls, document: JsonObject) -> Strictness:
        """Read ``{"apis": {"enforced": true}}``; what is absent is lenient.

        Raises:
            CloudError: 400 naming every key and value that is not understood.
        """
        try:
            # As JSON, where a list may be read as a tuple although types are held strictly.
            return _adapter().validate_json(json.dumps(document))
        except ValidationError as error:
            problems = "; ".join(
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()
            )
            known = ", ".join(field.name for field in dataclasses.fields(cls))
            raise invalid_argument(f"strictness: {problems} (areas: {known})") from None

    def merged(self, change: JsonObject) -> Strictness:
        """This one with ``change`` applied (a JSON merge patch): null makes a key lenient again.

        Raises:
            CloudError: as :meth:`from_json`.
        """
        return self.from_json(merge(self.to_json(), change))


#: Nothing but what a service enforces anyway.
LENIENT = Strictness()

#: As Google was seen to be, or says that it is, in every area.
STRICT = Strictness(apis=Apis(enforced=True, bare_projects=True, answers_after_s=60))

#: The presets by the name that a user types.
PRESETS = {"lenient": LENIENT, "strict": STRICT}


@cache
def _adapter() -> TypeAdapter[Strictness]:
    return TypeAdapter(Strictness)
