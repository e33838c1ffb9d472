"""What a machine can copy within the region, as it is seen from here: two implementations, for a
model of the Hub (:mod:`tpuflex.cli.region_hub`) and for one in a bucket
(:mod:`tpuflex.cli.region_place`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tpuflex.errors import Finding, SettingsError
from tpuflex.operate.hub.snapshot import SOURCE_KEY

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.stack import OpenStack
    from tpuflex.copier.job import BucketOrigin, HubOrigin, JobFile
    from tpuflex.operate.region_copy.grants import Grant

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to copy.

    Attributes:
        source: names it, as the manifest's object will.
        origin: where a machine finds it.
        files: what is copied, by path.
        left_out: names that are not, because they are no data formats.
    """

    source: str
    origin: HubOrigin | BucketOrigin
    files: tuple[JobFile, ...]
    left_out: tuple[str, ...]


class RegionSource(Protocol):
    """A source that a machine can copy."""

    def findings(self, stack: OpenStack) -> Iterator[Finding]:
        """Why the stack file keeps a machine from it; asks for nothing."""

    def require_grantable(self, cloud: Cloud) -> None:
        """Check that the machine's account can be let read it, by the caller.

        Raises:
            AccessError: it cannot be.
            NotFoundError, AlreadyExistsError, ApiError: what it reads is not there, or cannot be
                looked at.
        """

    def seen(self, cloud: Cloud, say: Say) -> Seen:
        """What there is. What may not be read is refused before anything is made.

        Raises:
            SettingsError: the machine could not reach it.
            WeightsError: nothing in it could be served.
            NotFoundError, AccessError, ApiError: it is not there, or not given.
        """

    def grants(self, cloud: Cloud) -> tuple[Grant, ...]:
        """What the machine's account is granted to read it.

        Raises:
            TpuflexError: it cannot be told.
        """

    def reads(self, cloud: Cloud) -> str:
        """What that is, in words; empty for nothing."""

    def elsewhere_texts(self, cloud: Cloud) -> Iterator[str]:
        """What it costs that it is not in the machine's region.

        Raises:
            TpuflexError: it cannot be told.
        """


def region_source(source: str | None) -> RegionSource:
    """The source that ``source`` of a stack file names.

    Raises:
        SettingsError: it names none that a machine could reach.
    """
    from tpuflex.cli.region_hub import HubRegionSource
    from tpuflex.cli.region_place import PlaceSource
    from tpuflex.operate.checkpoint_source import GsUrl
    from tpuflex.operate.hub.snapshot import HubSource

    if source is not None and source.startswith("gs://"):
        return PlaceSource(GsUrl.parse(source))
    if source is not None and (hub := HubSource.parse(source)) is not None:
        return HubRegionSource(hub)
    problem = "is not set" if source is None else f"is {source!r}, which no machine copies"
    raise SettingsError(
        "the stack file",
        (
            Finding(
                SOURCE_KEY, f"it {problem}", "Write hf://OWNER/NAME@COMMIT or gs://BUCKET/PREFIX."
            ),
        ),
        hint="Anything else is pushed from here: tpuflex weights push",
    )


def require_grants_allowed(stack: OpenStack, source: RegionSource) -> None:
    """Check that the machine's account may be let in where it has to: not into a bucket or a secret
    of the user's own on which tpuflex is to grant nothing.

    Raises:
        SettingsError: the stack keeps its weights there, or the source keeps a machine out.
    """
    weights = stack.settings.model.weights
    findings = []
    if weights.brought is not None and not weights.manage_grants:
        problem = f"it is false, so no machine is let into {weights.brought.url}"
        findings.append(Finding("tpuflex:model.weights.manage_grants", problem))
    findings += source.findings(stack)
    if findings:
        raise SettingsError(
            stack.file.name,
            tuple(findings),
            hint=f"Push from here: tpuflex weights push --stack {stack.name}",
        )
