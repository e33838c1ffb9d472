"""A fault rule: at which calls, at which point of the call, what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationError, model_validator

from embedded_cloud.errors import invalid_argument
from embedded_cloud.faults.effect import Effect, Kill, Model, Truncated
from embedded_cloud.json_types import JsonObject, JsonValue


class Stage(StrEnum):
    """The point of a call at which a fault strikes."""

    BEFORE_COMMIT = "before-commit"
    """The request has arrived, nothing was done; unless it is a delay, nothing will be."""
    AFTER_COMMIT = "after-commit"
    """It was done (or refused); the answer is lost or replaced."""
    MID_BODY = "mid-body"
    """Half of the answer's body was sent."""
    AFTER_RESPONSE = "after-response"
    """The whole answer was sent."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What rules are matched against.

    Attributes:
        method: HTTP method.
        path: path as sent, without query.
        method_id: Google's id of the API method.
        service: API name such as ``tpu`` or ``storage``.
        resource: the path, and for a call that creates, what it creates.
    """

    method: str
    path: str
    method_id: str
    service: str
    resource: str


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


_Pattern = Annotated[str, AfterValidator(_compiles)]


class Where(Model):
    """Which calls. What is left out matches every call."""

    method: str | None = None
    """HTTP method."""
    method_id: str | None = None
    """Id of the API method; * and ? are wildcards (`tpu.*.queuedResources.get`)."""
    service: str | None = None
    """API name: tpu, storage, secretmanager, compute, iam, ..."""
    path: _Pattern | None = None
    """Regular expression found somewhere in the path."""
    resource: _Pattern | None = None
    """Regular expression found somewhere in the resource's name (also of what is created)."""
    after: str | None = None
    """Only once a call with this method id (wildcards as above) has succeeded; if both are
    about resources of one kind, one to the same resource."""

    def matches(self, facts: CallFacts, done: set[tuple[str, str]]) -> bool:
        """Whether a call is meant.

        Args:
            facts: the call.
            done: (method id, resource) of the calls that succeeded since the rule was set.
        """
        return (
            (self.method is None or self.method == facts.method)
            and (self.method_id is None or fnmatchcase(facts.method_id, self.method_id))
            and (self.service is None or self.service == facts.service)
            and (self.path is None or re.search(self.path, facts.path) is not None)
            and (self.resource is None or re.search(self.resource, facts.resource) is not None)
            and (self.after is None or _followed(self.after, facts.resource, done))
        )


class Rule(Model):
    """One fault rule.

    It strikes at the `nth` matching call and from there at every `every`-th, `times` times
    in all.
    """

    id: str = Field(default="", pattern=r"^[A-Za-z0-9._:-]{0,64}$")
    """Names the rule in the history; given by the embedded cloud if left out."""
    where: Where = Where()
    nth: int = Field(default=1, ge=1)
    every: int = Field(default=1, ge=1)
    times: int = Field(default=1, ge=0)
    """0: without limit."""
    stage: Stage = Stage.BEFORE_COMMIT
    effect: Effect

    @model_validator(mode="after")
    def _possible(self) -> Rule:
        stage, effect = self.stage, self.effect
        allowed = {Stage.BEFORE_COMMIT, Stage.AFTER_COMMIT}
        if isinstance(effect, Kill):
            allowed = set(Stage)
        elif isinstance(effect, Truncated):
            allowed = {Stage.AFTER_COMMIT, Stage.MID_BODY}
        elif effect.kind in ("reset", "delay"):
            allowed |= {Stage.MID_BODY}
        if stage not in allowed:
            raise ValueError(f"the effect {effect.kind} is not possible at the stage {stage}")
        return self

    def strikes_at(self, seen: int, struck: int) -> bool:
        """Whether it strikes at the ``seen``-th matching call, having struck ``struck`` times."""
        if self.times and struck >= self.times:
            return False
        return seen >= self.nth and (seen - self.nth) % self.every == 0

    def to_json(self) -> JsonObject:
        """The form that :func:`parse_rule` reads."""
        shown: JsonObject = self.model_dump(mode="json", exclude_defaults=True)
        # The kind is a default of every effect, but it distinguishes them.
        effect: JsonObject = {
            "kind": self.effect.kind,
            **self.effect.model_dump(mode="json", exclude_defaults=True),
        }
        return {**shown, "id": self.id, "stage": self.stage.value, "effect": effect}


def parse_rule(document: JsonValue) -> Rule:
    """Read a rule.

    Raises:
        CloudError: 400 naming what is not understood.
    """
    try:
        return Rule.model_validate(document)
    except ValidationError as error:
        found = [
            f"{'.'.join(str(part) for part in item['loc']) or 'rule'}: {item['msg']}"
            for item in error.errors(include_url=False)
        ]
        raise invalid_argument(f"fault rule: {'; '.join(found)}") from None


def _followed(method_id: str, resource: str, done: set[tuple[str, str]]) -> bool:
    """Whether a call of ``method_id`` succeeded before that concerns this resource."""
    collection = _collection(resource)
    return any(
        fnmatchcase(did, method_id) and (to == resource or _collection(to) != collection)
        for did, to in done
    )


def _collection(resource: str) -> str:
    return resource.rpartition("/")[0]
