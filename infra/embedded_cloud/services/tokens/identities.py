"""Who can present a credential to the token servers, and the secrets by which they are known.

All secrets carry ``tpuflex-embedded``, by which clients know that Google must not see them, and are
others after each start.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from embedded_cloud.core.access import USER_ACCOUNT, Access
from embedded_cloud.core.json_types import JsonObject

#: gcloud's own OAuth client is of this project, to which calls are charged that name no other
#: (``_cloud_sdk.CLOUD_SDK_CLIENT_ID`` of google-auth).
CLIENT_PROJECT_NUMBER = "764086051850"
CLIENT_ID = f"{CLIENT_PROJECT_NUMBER}-tpuflex-embedded.apps.googleusercontent.com"
_POOL = "workloadIdentityPools/tpuflex-embedded"
_KEY_BITS = 2048


def deployer(project: str) -> str:
    """The service account of ``project`` that credentials are for."""
    return f"deployer@{project}.iam.gserviceaccount.com"


def audience(project_number: str) -> str:
    """The provider of the workload identity pool of a project."""
    return (
        f"//iam.googleapis.com/projects/{project_number}/locations/global/{_POOL}"
        "/providers/tpuflex-embedded"
    )


def federated(audience: str) -> str:
    """The principal that a token of the pool's provider stands for; empty for another audience."""
    pool, found, _ = audience.partition("/providers/tpuflex-embedded")
    return f"principal:{pool}/subject/ci" if found and pool.endswith(_POOL) else ""


def account_bindings(account: str, project: str, project_number: str) -> list[JsonObject]:
    """What the policy of a service account grants before it is set: the user who has logged in,
    and the provider of the workload identity pool, may act as the account that credentials are
    for; nobody as another one.

    Args:
        account: full resource name of the account.
        project: its project.
        project_number: the project's number.
    """
    if not account.endswith(f"/serviceAccounts/{deployer(project)}"):
        return []
    pool = audience(project_number).removeprefix("//").partition("/providers/")[0]
    return [
        {"role": "roles/iam.serviceAccountTokenCreator", "members": [f"user:{USER_ACCOUNT}"]},
        {"role": "roles/iam.workloadIdentityUser", "members": [f"principalSet://{pool}/*"]},
    ]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a service account.

    Attributes:
        account: e-mail address.
        public_pem: the public half.
    """

    account: str
    public_pem: bytes


class Identities:
    """The secrets of one start.

    Args:
        access: the cloud's own secret, from which the others follow.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._keys: dict[str, Key] = {}
        #: Whose tokens the caller's metadata server gives; empty while there is none.
        self.metadata_project = ""

    def serve_metadata(self, project: str) -> None:
        """From now on the caller's metadata server gives tokens of ``project``."""
        self.metadata_project = project

    @property
    def refresh_token(self) -> str:
        """The user's refresh token."""
        return f"1//tpuflex-embedded.{self._access.secret('refresh token')}"

    @property
    def subject_token(self) -> str:
        """The token of the provider of the workload identity pool."""
        return f"tpuflex-embedded.{self._access.secret('subject token')}"

    def key(self, key_id: str) -> Key | None:
        """A service account's key, if it is one of this start."""
        return self._keys.get(key_id)

    def new_key(self, account: str) -> tuple[str, str]:
        """Make a key of ``account``; its id, and the private half as PEM."""
        # Imported late: most embedded clouds never make one.
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        private = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
        public = private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        pem = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        key_id = f"tpuflex-embedded-{secrets.token_hex(8)}"
        self._keys[key_id] = Key(account, public)
        return key_id, pem.decode()
