"""What a bootstrap makes, by name: a pure function of project, region and repository.

One project has one of each, so that a second run, or a second machine, finds what there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpuflex.naming import account_email

#: Pulumi's project of the bootstrap; its stack is called like the Google Cloud project.
PULUMI_PROJECT = "tpuflex-bootstrap"
POOL, PROVIDER = "tpuflex", "github"
KEY_RING, KEY = "tpuflex", "state"
PREVIEW, DEPLOY = "preview", "deploy"
#: Where the bootstrap's own state is kept in the bucket that it makes.
STATE_COPY = ".tpuflex/bootstrap.json"

_REPOSITORY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})/[A-Za-z0-9._-]{1,100}")
_ENVIRONMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on GitHub.

    Attributes:
        name: ``OWNER/NAME``.
        owner_id: number of its owner: a name can be taken by another owner later.
        id: its own number.
        environment: the GitHub environment whose jobs may deploy.
    """

    name: str
    owner_id: int
    id: int
    environment: str = "production"

    def __post_init__(self) -> None:
        """Raises ValueError for what could mean anything else in a condition or a principal."""
        if not _REPOSITORY.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no repository: write OWNER/NAME")
        if not _ENVIRONMENT.fullmatch(self.environment):
            raise ValueError(f"{self.environment!r} is no name of an environment")
        if self.owner_id <= 0 or self.id <= 0:
            raise ValueError("the numbers of owner and repository are positive")

    @property
    def condition(self) -> str:
        """Whose tokens the provider takes
        (https://docs.github.com/actions/reference/security/oidc)."""
        return (
            f"assertion.repository_owner_id == '{self.owner_id}'"
            f" && assertion.repository_id == '{self.id}'"
        )

    @property
    def deploys(self) -> str:
        """Whether a token is that of a job in its environment, on a branch that is protected, as an
        attribute's expression. Without protection, anyone who may push would deploy.

        The end of the subject says so, in both forms that GitHub gives it: with names alone, and
        with numbers beside them, as repositories have it that were made after 2026-06-18
        (https://github.blog/changelog/2026-04-23-immutable-subject-claims-for-github-actions-oidc-tokens).
        Values within a subject have no colon: GitHub writes %3A for it.
        """
        environment = f"assertion.sub.endsWith(':environment:{self.environment}')"
        return f"{environment} && assertion.ref_protected == 'true' ? 'yes' : 'no'"


@dataclass(frozen=True, slots=True)
class BootstrapNames:
    """The names in one Google Cloud project.

    Attributes:
        project: its id.
        region: where bucket and key are.
    """

    project: str
    region: str

    @property
    def bucket(self) -> str:
        """The bucket of the states. Ids of projects are unique among all, and so is this."""
        return f"{self.project}-tpuflex-state"

    @property
    def not_own_state(self) -> str:
        """What holds of all objects but the bootstrap's own state. Anyone who could write that
        could have an administrator's next bootstrap delete what they name in it
        (https://cloud.google.com/iam/docs/conditions-attribute-reference#resource-name)."""
        folder = STATE_COPY.rpartition("/")[0]
        objects = f"projects/_/buckets/{self.bucket}/objects/"
        return f"!resource.name.startsWith('{objects}{folder}/')"

    @property
    def key_ring(self) -> str:
        """Full name of the key ring."""
        return f"projects/{self.project}/locations/{self.region}/keyRings/{KEY_RING}"

    @property
    def key(self) -> str:
        """Full name of the key for the states' secrets."""
        return f"{self.key_ring}/cryptoKeys/{KEY}"

    @property
    def pool(self) -> str:
        """Full name of the identity pool, as an import takes it."""
        return f"projects/{self.project}/locations/global/workloadIdentityPools/{POOL}"

    @property
    def provider(self) -> str:
        """Full name of its provider."""
        return f"{self.pool}/providers/{PROVIDER}"

    @property
    def backend(self) -> str:
        """Pulumi's address of the bucket."""
        return f"gs://{self.bucket}"

    @property
    def secrets_provider(self) -> str:
        """Pulumi's address of the key."""
        return f"gcpkms://{self.key}"

    def account_id(self, identity: str) -> str:
        """The id of the service account of ``preview`` or ``deploy``."""
        return f"tpuflex-{identity}"

    def email(self, identity: str) -> str:
        """Its address."""
        return account_email(self.account_id(identity), self.project)

    def variables(self, number: str) -> dict[str, str]:
        """What workflows on GitHub have to know; none of it is a secret.

        Args:
            number: number of the project, by which Google names pools.
        """
        provider = self.provider.replace(f"projects/{self.project}/", f"projects/{number}/", 1)
        return {
            "TPUFLEX_WORKLOAD_IDENTITY_PROVIDER": provider,
            "TPUFLEX_PREVIEW_SERVICE_ACCOUNT": self.email(PREVIEW),
            "TPUFLEX_DEPLOY_SERVICE_ACCOUNT": self.email(DEPLOY),
            "PULUMI_BACKEND_URL": self.backend,
            "TPUFLEX_SECRETS_PROVIDER": self.secrets_provider,
        }
