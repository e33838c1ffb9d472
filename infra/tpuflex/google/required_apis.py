"""The table of Google's APIs that an endpoint needs, and what each can be asked without harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tpuflex.settings.model import StackSettings


@dataclass(frozen=True, slots=True)
class Question:
    """A harmless GET of an API. Every answer but SERVICE_DISABLED says that the API serves.

    Attributes:
        client: the client to ask, a field of :class:`~tpuflex.google.apis.Apis`.
        path: what to read, with ``{project}``.
        query: query parameters, with ``{project}``.
    """

    client: str
    path: str
    query: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GoogleApi:
    """An API that an endpoint needs.

    Attributes:
        name: its name without ``.googleapis.com``.
        question: what to ask it; None for one that only the hosts call, which come up minutes
            after it was enabled.
    """

    name: str
    question: Question | None = None

    @property
    def service(self) -> str:
        """Its name in Service Usage."""
        return f"{self.name}.googleapis.com"


_ONE_ITEM = (("pageSize", "1"),)
_ONE_RESULT = (("maxResults", "1"),)
#: Resource Manager tells the number of the project and holds its policy, and pulumi-gcp reads it
#: before it enables an API. Paths: Google's discovery documents. What may not be read answers all
#: the same: forbidden.
APIS = (
    GoogleApi("artifactregistry"),
    GoogleApi("cloudresourcemanager", Question("resourcemanager", "/v1/projects/{project}")),
    GoogleApi("compute", Question("compute", "/compute/v1/projects/{project}")),
    GoogleApi("dns", Question("dns", "/dns/v1/projects/{project}/managedZones", _ONE_RESULT)),
    GoogleApi("iam", Question("iam", "/v1/projects/{project}/serviceAccounts", _ONE_ITEM)),
    GoogleApi("iap"),
    GoogleApi("logging"),
    GoogleApi(
        "monitoring", Question("monitoring", "/v3/projects/{project}/alertPolicies", _ONE_ITEM)
    ),
    GoogleApi(
        "secretmanager", Question("secretmanager", "/v1/projects/{project}/secrets", _ONE_ITEM)
    ),
    GoogleApi(
        "serviceusage", Question("serviceusage", "/v1/projects/{project}/services", _ONE_ITEM)
    ),
    GoogleApi(
        "storage", Question("storage", "/storage/v1/b", (("project", "{project}"), *_ONE_RESULT))
    ),
    GoogleApi("tpu", Question("tpu", "/v2alpha1/projects/{project}/locations", _ONE_ITEM)),
)

#: What a stack needs whose data a key of the user's encrypts.
KEYS_API = GoogleApi(
    "cloudkms",
    Question("cloudkms", "/v1/projects/{project}/locations/global/keyRings", _ONE_ITEM),
)


def endpoint_apis(*, reads_keys: bool) -> tuple[GoogleApi, ...]:
    """The APIs that are enabled for an endpoint.

    Args:
        reads_keys: whether a key of the user's encrypts its data.
    """
    return (*APIS, KEYS_API) if reads_keys else APIS


#: What `tpuflex library` needs.
LIBRARY_APIS = tuple(
    api
    for api in APIS
    if api.name in ("cloudresourcemanager", "secretmanager", "serviceusage", "storage")
)
_ALSO_FOR_ENDPOINTS = ("cloudresourcemanager", "iam", "serviceusage", "storage")
#: What `tpuflex bootstrap` needs, and what a workflow needs that then comes in by it: a token of
#: the pool (Security Token Service), and one of an account (IAM Credentials).
BOOTSTRAP_APIS = (
    *(api for api in APIS if api.name in _ALSO_FOR_ENDPOINTS),
    KEYS_API,
    GoogleApi("iamcredentials"),
    GoogleApi("sts"),
)


def needed_apis(settings: StackSettings) -> tuple[GoogleApi, ...]:
    """The APIs that a stack needs. One that enables them enables nearly all, for whatever it may
    become; where others do, those that it has no use for are not asked of them."""
    needed = endpoint_apis(reads_keys=settings.encryption.kms_key is not None)
    if settings.manage_apis:
        return needed
    unused = set() if settings.pulls_own_image else {"artifactregistry"}
    if not settings.monitoring.export_metrics:
        unused.add("monitoring")
    if settings.network.egress != "google":
        unused.add("dns")
    return tuple(api for api in needed if api.name not in unused)
