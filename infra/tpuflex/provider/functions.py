"""The package's functions: what a program may ask the TPU API, without managing anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from pulumi_plugin.values import Properties
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.naming import PACKAGE
from tpuflex.provider.call import Call
from tpuflex.provider.read import read
from tpuflex.queued_resource.limits import PROJECT_PATTERN, REQUEST_ID_PATTERN, ZONE_PATTERN
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.rows import Group


class ZoneArgs(Group):
    """Where to look."""

    zone: Annotated[str, Field(pattern=f"^{ZONE_PATTERN}$")]
    """Zone, such as us-east5-a."""

    project: Annotated[str, Field(pattern=f"^{PROJECT_PATTERN}$")] | None = None
    """Google Cloud project id; the provider's project unless given."""


class QueuedResourceArgs(ZoneArgs):
    """What to look up."""

    queued_resource_id: Annotated[str, Field(pattern=f"^{REQUEST_ID_PATTERN}$")]
    """Id of the queued resource within its zone."""


class AcceleratorShape(Group):
    """Kind and shape of an accelerator type."""

    type: str
    """Kind of TPU, such as V6E."""

    topology: str
    """Shape in chips, such as 2x2."""


class AvailableAcceleratorType(Group):
    """An accelerator type that a zone knows."""

    type: str
    """Accelerator type, such as v6e-4."""

    accelerator_configs: tuple[AcceleratorShape, ...] = ()
    """Its kind, in each shape that it has."""


class AcceleratorTypes(Group):
    """What a zone knows; that there is capacity it does not say."""

    accelerator_types: tuple[AvailableAcceleratorType, ...] = ()
    """Accelerator types, by name."""


class RuntimeVersions(Group):
    """What hosts in a zone may run."""

    runtime_versions: tuple[str, ...] = ()
    """TPU software versions, by name."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the package.

    Attributes:
        text: what it answers.
        arguments: what it takes.
        answer: what it answers with; None: a queued resource as the state would show it.
        ask: asks the API about valid arguments in a project.
    """

    text: str
    arguments: type[ZoneArgs]
    answer: type[BaseModel] | None
    ask: Callable[[Call, str, ZoneArgs], Properties]


class ArgumentsError(TpuflexError):
    """Arguments that cannot be honoured.

    Attributes:
        findings: each as (argument, reason).
    """

    def __init__(self, findings: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {why}" for path, why in findings))
        self.findings = findings


def invoke(
    token: str,
    given: Properties,
    project: str | None,
    connect: Callable[[], Call],
    *,
    secrets: Collection[str] = (),
) -> Properties:
    """The answer of the function ``token``.

    Args:
        token: which one.
        given: its arguments.
        project: the provider's project, for arguments that name none.
        connect: makes the engine call.
        secrets: names of the arguments that are secret: no error repeats their values.

    Raises:
        ArgumentsError: the arguments are not usable.
        TpuflexError: there is no such function; or the API refuses, or does not answer.
    """
    if token not in FUNCTIONS:
        raise TpuflexError(
            f"the tpuflex provider has no function {token!r}",
            hint=f"It has {', '.join(FUNCTIONS)}. Is another version of tpuflex installed?",
        )
    function = FUNCTIONS[token]
    try:
        args = function.arguments.model_validate(given)
    except ValidationError as error:
        raise ArgumentsError(_findings(error, secrets)) from None  # it has the values
    where = args.project or project
    if where is None:
        raise TpuflexError(
            "the Google Cloud project is not known", hint="Give project, or set it on the provider."
        )
    return function.ask(connect(), where, args)


def _findings(error: ValidationError, secrets: Collection[str]) -> list[tuple[str, str]]:
    plain = {"extra_forbidden": "there is no such argument", "missing": "it is required"}
    found = []
    for item in error.errors(include_url=False):
        shown = "" if item["loc"][0] in secrets else f", but it is {item['input']!r}"
        reason = plain.get(item["type"]) or f"{item['msg']}{shown}"
        found.append((".".join(map(str, item["loc"])), reason))
    return found


def _queued_resource(call: Call, project: str, args: ZoneArgs) -> Properties:
    assert isinstance(args, QueuedResourceArgs)  # noqa: S101 - by the table below
    name = RequestName(project, args.zone, args.queued_resource_id)
    found = read(call, str(name), {}, {})
    if found is None:
        raise NotFoundError(
            f"there is no queued resource {name}",
            hint="Its state may be in another zone or project.",
        )
    return found.outputs


def _accelerator_types(call: Call, project: str, args: ZoneArgs) -> Properties:
    found = call.client.list_accelerator_types(project, args.zone)
    return _said(AcceleratorTypes, {"acceleratorTypes": found})


def _runtime_versions(call: Call, project: str, args: ZoneArgs) -> Properties:
    found = call.client.list_runtime_versions(project, args.zone)
    return _said(RuntimeVersions, {"runtimeVersions": found})


def _said(model: type[BaseModel], found: Mapping[str, object]) -> Properties:
    said: Properties = model.model_validate(found).model_dump(mode="json", by_alias=True)
    return said


#: The functions, by their tokens.
FUNCTIONS: Mapping[str, Function] = {
    f"{PACKAGE}:tpu:getQueuedResource": Function(
        "A queued resource that exists, whoever made it, with its nodes. Nothing of it is managed.",
        QueuedResourceArgs,
        None,
        _queued_resource,
    ),
    f"{PACKAGE}:tpu:getAcceleratorTypes": Function(
        "The accelerator types that a zone knows; that there is capacity it does not say.",
        ZoneArgs,
        AcceleratorTypes,
        _accelerator_types,
    ),
    f"{PACKAGE}:tpu:getRuntimeVersions": Function(
        "The TPU software versions that hosts in a zone may run.",
        ZoneArgs,
        RuntimeVersions,
        _runtime_versions,
    ),
}
