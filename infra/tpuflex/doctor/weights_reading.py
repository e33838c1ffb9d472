"""What `tpuflex doctor` reads of the weights in the bucket, and which ones `tpuflex up` would take,
as far as that can be told without the state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.doctor import weights
from tpuflex.errors import (
    AlreadyExistsError,
    NotFoundError,
    TpuflexError,
    WeightsError,
)
from tpuflex.google.bucket_owner import may_read_buckets, require_own_bucket
from tpuflex.google.existing_bucket import read_existing_bucket
from tpuflex.google.project_number import project_number
from tpuflex.google.reading import attempt
from tpuflex.operate.status import slice_status
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.weights.bucket import weights_bucket
from tpuflex.weights.library import require_library, require_programs_key
from tpuflex.weights.push_record import PushedWeights
from tpuflex.weights.source import check_source
from tpuflex.weights.trust import Choice, Trust, Weights, choose

if TYPE_CHECKING:
    from tpuflex.doctor.check import Check
    from tpuflex.google.transport import Api
    from tpuflex.stack.connection import Connection
    from tpuflex.weights.stored_set import WeightsCheck


def stored_weights_check(cloud: Connection, manager: Api, storage: Api) -> Check:
    """How the weights of the stack stand.

    Args:
        cloud: the stack's cloud.
        manager: a client of Resource Manager that keeps nobody waiting.
        storage: one of Cloud Storage.

    Raises:
        TpuflexError: that cannot be told.
    """
    stack, model, project = cloud.stack, cloud.stack.settings.model, cloud.stack.settings.project
    prefix = weights_prefix(model)
    place = weights.WeightsPlace(
        f"gs://{cloud.bucket}/{prefix}",
        str(model.weights.source or ""),
        _error(lambda: check_source(stack, cloud)),
        f"tpuflex weights push DIRECTORY --stack {stack.name}",
        model.weights.manifest_sha256 is not None,
    )

    existing = model.weights.existing

    def read() -> WeightsCheck | None:
        if existing is not None:
            read_existing_bucket(storage, existing, stack.settings.region)
        elif not all(map(_there, cloud.buckets.values())):
            require_library(cloud)
            return None
        require_programs_key(cloud)
        bucket = weights_bucket(
            cloud.bucket, project=project, environ=cloud.environ, existing=existing
        )
        try:
            return bucket.verify(prefix, ServerNeeds.of(stack.settings))
        except NotFoundError:
            return None

    def _there(name: str) -> bool:
        number = partial(project_number, manager, project)
        readable = partial(may_read_buckets, manager, project)
        shared = name != cloud.made_bucket
        return require_own_bucket(storage, name, project, number, readable, shared=shared)

    try:
        stored = read()
        if stored is not None and stored.problems:
            place = replace(place, active=attempt(lambda: _active(cloud)) is True)
        return weights.weights_check(place, stored, _choice_for(cloud, place.url, stored))
    except (AlreadyExistsError, NotFoundError) as error:
        return weights.WEIGHTS.failed(type(error), error.message, error.hint)


def _choice_for(
    cloud: Connection, place: str, stored: WeightsCheck | None
) -> Choice | WeightsError:
    """What `up` would do about the weights in the bucket, as far as that is known without the
    state, or why it would refuse them.

    Args:
        cloud: the stack's cloud.
        place: where they are.
        stored: what is there.
    """
    settings = cloud.stack.settings.model.weights
    known = PushedWeights(cloud.stack.own_files)
    pushed = known.get(cloud.bucket, weights_prefix(cloud.stack.settings.model))
    found = None if stored is None else stored.sha256
    try:
        return choose(
            Weights(place, cloud.stack.name, found, settings.source is not None),
            Trust(pinned=settings.manifest_sha256, pushed=pushed),
        )
    except WeightsError as error:
        return error


def _active(cloud: Connection) -> bool:
    status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    return status.lifecycle is Lifecycle.ACTIVE


def _error(look: Callable[[], object]) -> TpuflexError | None:
    try:
        look()
    except TpuflexError as error:
        return error
    return None
