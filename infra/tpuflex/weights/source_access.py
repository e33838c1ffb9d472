"""How a command reaches what weights are fetched from: the Hugging Face Hub, with its address and
token; a bucket."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError, NotFoundError, ServiceDisabledError
from tpuflex.google.timing import Timing, steady
from tpuflex.naming import HF_TOKEN
from tpuflex.stack.environment import HUB_ENDPOINT_VARIABLE, HUB_TOKEN_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tpuflex.settings.weights_source import GsUrl
    from tpuflex.stack.connection import Connection
    from tpuflex.weights.checkpoint_objects import CheckpointObjects
    from tpuflex.weights.hub.client import HubClient


def objects_at(cloud: Connection, place: GsUrl) -> CheckpointObjects:
    """What is at a place in a bucket, as the caller may read it; makes no request."""
    from tpuflex.weights.checkpoint_objects import checkpoint_objects

    return checkpoint_objects(place.bucket, place.prefix, environ=cloud.environ)


def hub_client(cloud: Connection) -> HubClient:
    """A client of the Hub, as the stack of ``cloud`` reaches it."""
    return _client(cloud.environ, lambda: hub_token(cloud), cloud.timing)


def hasty_hub_client(environ: Mapping[str, str], token: str) -> HubClient:
    """A client of the Hub that asks once, for what can be done without."""
    return _client(environ, lambda: token, Timing(steady, time.time, lambda _: True, random.random))


def _client(environ: Mapping[str, str], token: Callable[[], str], timing: Timing) -> HubClient:
    from tpuflex.weights.hub.client import HubClient

    return HubClient(environ.get(HUB_ENDPOINT_VARIABLE, "").rstrip("/"), token, timing)


def hub_token(cloud: Connection) -> str:
    """The token for the Hub: HF_TOKEN, else the secret that the stack file names; empty for none.

    Raises:
        NotFoundError: the secret has no such version.
        TpuflexError: Secret Manager refused.
    """
    if token := cloud.hub_token.strip():
        return token
    try:
        return secret_token(cloud)
    except ServiceDisabledError:
        return ""  # a new project, which can hold no secret yet


def secret_token(cloud: Connection) -> str:
    """The token of the secret that the stack file names; empty where it names none.

    Raises:
        NotFoundError: the secret has no such version.
        ConflictError: it was disabled or destroyed.
        TpuflexError: Secret Manager refused.
    """
    secrets = cloud.stack.settings.secrets
    if HF_TOKEN not in secrets.roles:
        return ""
    version = cloud.secret_version(HF_TOKEN)
    try:
        return cloud.secrets.access(version)
    except ConflictError as error:
        raise ConflictError(
            error.message,
            hint="Enable it in Secret Manager, or write another version under tpuflex:secrets in"
            " the stack file.",
        ) from error
    except NotFoundError as error:
        if HF_TOKEN in secrets.existing:
            raise NotFoundError(
                f"tpuflex:secrets.hf_token: {version} does not exist",
                hint="Write a version that is there. A push from here takes"
                f" {HUB_TOKEN_VARIABLE}, too.",
            ) from error
        raise NotFoundError(
            f"Version {secrets.versions[HF_TOKEN]} of the token for the Hub does not exist.",
            hint=f"Add it: tpuflex secrets put {HF_TOKEN} --stack {cloud.stack.name}\n"
            f"A push from here takes {HUB_TOKEN_VARIABLE}, too.",
        ) from error
