"""A key of the user's own in Cloud KMS: whether it can be used, and who has to be let use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.gcloud_commands import (
    GcloudCommand,
    create_agent,
    describe_key,
    show_storage_agent,
)

if TYPE_CHECKING:
    from tpuflex.google.transport import Api, JsonObject
    from tpuflex.settings.model import StackSettings

SETTING = "tpuflex:encryption.kms_key"
#: With it a service agent encrypts and decrypts, and does nothing else with the key.
USE_ROLE = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
_PURPOSE = "ENCRYPT_DECRYPT"
_ENABLED = "ENABLED"
_HOST = "iam.gserviceaccount.com"


@dataclass(frozen=True, slots=True)
class Agent:
    """The service agent that uses a key, on behalf of nobody.

    Attributes:
        service: what it belongs to, in words.
        what: what it encrypts.
        email: its address.
        making: the command that makes it where the project never had it; None where it is made
            with what a stack needs anyway.
    """

    service: str
    what: str
    email: str
    making: GcloudCommand | None = None

    @property
    def member(self) -> str:
        """It as an IAM policy spells it."""
        return f"serviceAccount:{self.email}"


def agents(settings: StackSettings, number: str) -> tuple[Agent, ...]:
    """Who has to be let use the key of a stack (https://cloud.google.com/iam/docs/service-agents).

    Args:
        settings: the stack.
        number: number of its project.
    """
    project = settings.project
    storage = Agent(
        "Cloud Storage",
        "the bucket",
        f"service-{number}@gs-project-accounts.{_HOST}",
        show_storage_agent(project),
    )
    secrets = Agent(
        "Secret Manager",
        "the secrets",
        f"service-{number}@gcp-sa-secretmanager.{_HOST}",
        create_agent(project, "secretmanager.googleapis.com"),
    )
    # Also for TPUs: https://cloud.google.com/tpu/docs/cmek-tpu
    disks = Agent("Compute Engine", "boot disks", f"service-{number}@compute-system.{_HOST}")
    return (
        *((storage,) if settings.makes_bucket else ()),
        *((secrets,) if settings.secrets.versions else ()),
        disks,
    )


def read_key(cloudkms: Api, key: str) -> JsonObject:
    """``key`` as Cloud KMS has it, which can be used.

    Raises:
        NotFoundError: there is no such key.
        ConflictError: it is for something else, or its primary version is not enabled.
        AccessError, ApiError: it cannot be read.
    """
    try:
        answer = cloudkms.call("GET", f"/v1/{key}")
    except NotFoundError as error:
        raise NotFoundError(
            f"{SETTING}: {key} does not exist",
            hint="Write a key that is there. It is yours: tpuflex makes none.",
        ) from error
    primary = answer.get("primary")
    if refusal := unusable(key, answer.get("purpose"), primary if primary is not None else {}):
        text, _, hint = refusal.partition("\n")
        raise ConflictError(text, hint=hint)
    return answer


def unusable(key: str, purpose: object, primary: object) -> str:
    """Why ``key`` cannot encrypt, and on a second line what to do; empty if it can.

    Args:
        key: its name.
        purpose: what it is for, as the API says it; anything but text where that is not known.
        primary: its primary version, empty if it has none; anything but a mapping where that is
            not known.
    """
    if isinstance(purpose, str) and purpose and purpose != _PURPOSE:
        what = f"{SETTING}: {key} is for {purpose}"
        return f"{what}\nWrite a symmetric key, for encryption ({_PURPOSE})."
    if isinstance(primary, Mapping) and (state := primary.get("state")) != _ENABLED:
        how = f"is {state}" if state else "is not there"
        return f"{SETTING}: the primary version of {key} {how}\nLook: {describe_key(key)}"
    return ""
