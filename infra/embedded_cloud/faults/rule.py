"""A fault rule: at which calls, at which point of the call, what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from embedded_cloud.core.errors import invalid_argument
from embedded_cloud.core.json_types import JsonObject, JsonValue

#: Answers are held back for at most this long, in seconds of real time.
LONGEST_HOLD_S = 120.0

_Hold = Annotated[float, Field(ge=0, le=LONGEST_HOLD_S)]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]


class Model(BaseModel):
    """Strict and frozen: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Answer(Model):
    """An error answer in Google's shape."""

    kind: Literal["answer"] = "answer"
    status: int = Field(ge=200, le=599)
    """HTTP status code."""
    code: str = ""
    """Canonical code such as UNAVAILABLE; by default what belongs to the status."""
    message: str = ""
    """Google's text; one that says that it is injected, by default."""
    reason: str = ""
    """Machine-readable reason in `errors`, such as rateLimitExceeded."""
    retry_after_s: float | None = Field(default=None, ge=0)
    """Adds the header Retry-After."""
    retry_after_date: bool = False
    """Retry-After as an HTTP date (by the embedded cloud's clock) instead of seconds."""
    headers: dict[_Header, str] = {}
    """Further headers."""


class Reset(Model):
    """The connection is reset without an answer."""

    kind: Literal["reset"] = "reset"


class Timeout(Model):
    """No answer until the client gives up; then the connection is reset."""

    kind: Literal["timeout"] = "timeout"
    hold_s: _Hold = 60.0
    """Seconds of real time after which the connection is reset, should the client still wait."""


class Truncated(Model):
    """Half of the body, then the connection is closed."""

    kind: Literal["truncated"] = "truncated"


class Html(Model):
    """A login page with status 200, as captive portals and proxies answer."""

    kind: Literal["html"] = "html"
    status: int = Field(default=200, ge=200, le=599)


class Empty(Model):
    """Status 200 and no body."""

    kind: Literal["empty"] = "empty"


class Delay(Model):
    """The call succeeds, only later."""

    kind: Literal["delay"] = "delay"
    seconds: float = Field(ge=0)
    """On the embedded cloud's clock."""


class OperationError(Model):
    """The operation that the call begins, or asks about, is done and has failed.

    Before the commit of a call that begins an operation nothing is done, the answer is an
    operation under way, and the operation fails when it is asked about. After the commit the
    work is done, and the operation says otherwise.
    """

    kind: Literal["operation-error"] = "operation-error"
    code: int = Field(ge=1, le=16)
    """google.rpc code, such as 3, 8, 9 or 13."""
    message: str = "injected failure"
    reason: str = ""
    """Compute Engine's own code, such as ZONE_RESOURCE_POOL_EXHAUSTED; by default the canonical
    one."""


class Signal(StrEnum):
    """Signals that a kill point may send."""

    KILL = "KILL"
    TERM = "TERM"
    INT = "INT"
    STOP = "STOP"


class Kill(Model):
    """A signal to processes of the client, at this very point of the call."""

    kind: Literal["kill"] = "kill"
    roles: tuple[str, ...] = Field(min_length=1)
    """Who: `cli`, `engine`, `provider`, or another registered role; `family` is all of them; `gcp`
    is the embedded cloud's stand-in for the gcp provider."""
    signal: Signal = Signal.KILL
    then: Literal["reset", "proceed"] | None = None
    """What happens to the call: its connection is reset, or it proceeds. By default a call proceeds
    unless the signal is KILL."""
    hold_s: _Hold | None = None
    """Seconds of real time to wait for them to end; by default 10 for KILL, else none."""
    resume_after_s: float | None = Field(default=None, ge=0)
    """For STOP: they continue (SIGCONT) after these seconds of the embedded cloud's clock."""

    @property
    def breaks_off(self) -> bool:
        """Whether the call ends without an answer."""
        return self.then == "reset" or (self.then is None and self.signal is Signal.KILL)

    @property
    def waits_s(self) -> float:
        """How long the answer is held until the processes are dead."""
        if self.hold_s is not None:
            return self.hold_s
        return 10.0 if self.signal is Signal.KILL else 0.0


Effect: TypeAlias = Annotated[
    Answer | Reset | Timeout | Truncated | Html | Empty | Delay | OperationError | Kill,
    Field(discriminator="kind"),
]


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
