"""What Cloud TPU offers in a zone: accelerator types and runtime versions.

https://cloud.google.com/tpu/docs/reference/rest/v2alpha1/projects.locations.acceleratorTypes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError

if TYPE_CHECKING:
    from tpuflex.gcp.transport import Api


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether a zone has what a stack asks for.

    Attributes:
        accelerator: whether it has the accelerator type.
        runtime: whether it has the runtime version.
    """

    accelerator: bool
    runtime: bool


def zone_offer(tpu: Api, project: str, zone: str, accelerator: str, runtime: str) -> Offer:
    """Whether ``zone`` has ``accelerator`` and ``runtime``. That there is capacity it does not say.

    Raises:
        AccessError: the caller lacks tpu.acceleratortypes.get or tpu.runtimeversions.get, or the
            API is not enabled.
        ApiError: the API does not answer.
    """
    place = f"/v2alpha1/projects/{project}/locations/{zone}"
    return Offer(
        accelerator=_exists(tpu, f"{place}/acceleratorTypes/{accelerator}"),
        runtime=_exists(tpu, f"{place}/runtimeVersions/{runtime}"),
    )


def _exists(tpu: Api, path: str) -> bool:
    try:
        tpu.call("GET", path, budget=0)
    except NotFoundError:
        return False
    return True
