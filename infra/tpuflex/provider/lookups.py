"""What the package's functions take and answer with: the models of their schema. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tpuflex.request.limits import PROJECT_PATTERN, REQUEST_ID_PATTERN, ZONE_PATTERN
from tpuflex.request.rows import Group


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
