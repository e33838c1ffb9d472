"""Which APIs exist, and which of them a project has enabled. No HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import CloudError, cloud_error, error_info, precondition_failure
from embedded_cloud.core.json_types import flag, number
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness

COLLECTION = "_serviceusage/enabled"

#: Service name -> title, from each API's own discovery document or console page.
KNOWN: dict[str, str] = {
    "aiplatform.googleapis.com": "Vertex AI API",
    "artifactregistry.googleapis.com": "Artifact Registry API",
    "bigquery.googleapis.com": "BigQuery API",
    "billingbudgets.googleapis.com": "Cloud Billing Budget API",
    "cloudapis.googleapis.com": "Google Cloud APIs",
    "cloudbilling.googleapis.com": "Cloud Billing API",
    "cloudbuild.googleapis.com": "Cloud Build API",
    "cloudkms.googleapis.com": "Cloud Key Management Service (KMS) API",
    "cloudquotas.googleapis.com": "Cloud Quotas API",
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    "cloudtrace.googleapis.com": "Cloud Trace API",
    "compute.googleapis.com": "Compute Engine API",
    "container.googleapis.com": "Kubernetes Engine API",
    "dns.googleapis.com": "Cloud DNS API",
    "iam.googleapis.com": "Identity and Access Management (IAM) API",
    "iamcredentials.googleapis.com": "IAM Service Account Credentials API",
    "iap.googleapis.com": "Cloud Identity-Aware Proxy API",
    "logging.googleapis.com": "Cloud Logging API",
    "monitoring.googleapis.com": "Cloud Monitoring API",
    "networkmanagement.googleapis.com": "Network Management API",
    "oslogin.googleapis.com": "Cloud OS Login API",
    "pubsub.googleapis.com": "Cloud Pub/Sub API",
    "run.googleapis.com": "Cloud Run Admin API",
    "secretmanager.googleapis.com": "Secret Manager API",
    "servicemanagement.googleapis.com": "Service Management API",
    "servicenetworking.googleapis.com": "Service Networking API",
    "serviceusage.googleapis.com": "Service Usage API",
    "storage-api.googleapis.com": "Google Cloud Storage JSON API",
    "storage-component.googleapis.com": "Cloud Storage",
    "storage.googleapis.com": "Cloud Storage API",
    "sts.googleapis.com": "Security Token Service API",
    "tpu.googleapis.com": "Cloud TPU API",
}

#: Enabled in every new project
#: (https://cloud.google.com/service-usage/docs/enabled-service#default).
ENABLED_BY_DEFAULT = frozenset(
    {
        "bigquery.googleapis.com",
        "cloudapis.googleapis.com",
        "cloudtrace.googleapis.com",
        "logging.googleapis.com",
        "monitoring.googleapis.com",
        "servicemanagement.googleapis.com",
        "serviceusage.googleapis.com",
        "storage-api.googleapis.com",
        "storage-component.googleapis.com",
        "storage.googleapis.com",
    }
)


#: APIs that are enabled, and answer, only in projects with billing: of those that tpuflex needs.
CHARGED = frozenset(
    {
        "artifactregistry.googleapis.com",
        "cloudkms.googleapis.com",
        "compute.googleapis.com",
        "container.googleapis.com",
        "dns.googleapis.com",
        "run.googleapis.com",
        "secretmanager.googleapis.com",
        "tpu.googleapis.com",
    }
)


@dataclass(frozen=True, slots=True)
class ProjectService:
    """One API in one project, and when it was switched last."""

    project_number: str
    name: str
    enabled: bool
    since: float = 0.0

    @property
    def resource(self) -> str:
        """Full resource name; Google answers with the project's number."""
        return f"projects/{self.project_number}/services/{self.name}"


class ProjectServices:
    """Which APIs are enabled in which project (by number)."""

    def __init__(self, store: Store, clock: Clock, strictness: Callable[[], Strictness]) -> None:
        self._store = store
        self._clock = clock
        self._strictness = strictness

    def all(self, project_number: str) -> list[ProjectService]:
        """Every known API in the project, by name."""
        return [self.get(project_number, name) for name in sorted(KNOWN)]

    def get(self, project_number: str, name: str) -> ProjectService:
        """One API. Raises CloudError 403 for one that is not known, as Google does."""
        if name not in KNOWN:
            raise cloud_error(
                "PERMISSION_DENIED", f"Not found or permission denied for service(s): {name}."
            )
        stored = self._store.get(COLLECTION, f"{project_number}/{name}")
        if stored is None:
            return ProjectService(project_number, name, self._enabled_at_first(name))
        return ProjectService(
            project_number, name, flag(stored, "enabled"), since=number(stored, "since")
        )

    def answers(self, project_number: str, name: str) -> bool:
        """Whether the API is enabled and has been for long enough to answer."""
        service = self.get(project_number, name)
        settling = service.since + self._strictness().apis.answers_after_s
        return service.enabled and self._clock.now() >= settling

    def check_billing(self, project_number: str, names: Sequence[str]) -> None:
        """Raises CloudError 400 when one of them costs money and the project cannot pay."""
        charged = [name for name in names if name in CHARGED]
        if charged and not self._strictness().billing.enabled:
            raise _billing_not_found(project_number, charged)

    def set_enabled(self, project_number: str, name: str, enabled: bool) -> ProjectService:
        """Enable or disable one API, if it is not so already."""
        service = self.get(project_number, name)
        if service.enabled == enabled:
            return service
        now = self._clock.now()
        key = f"{project_number}/{name}"
        self._store.put(COLLECTION, key, {"enabled": enabled, "since": now})
        return ProjectService(project_number, name, enabled, now)

    def _enabled_at_first(self, name: str) -> bool:
        return name in ENABLED_BY_DEFAULT and not self._strictness().apis.bare_projects


def _billing_not_found(project_number: str, names: Sequence[str]) -> CloudError:
    """400, as gcloud has printed it for many; which of the services are charged, too."""
    subject = f"?error_code=390001&project={project_number}"
    subject += "".join(f"&services={name}" for name in names)
    return cloud_error(
        "FAILED_PRECONDITION",
        f"Billing account for project '{project_number}' is not found. Billing must be enabled for"
        f" activation of service(s) '{','.join(names)}' to proceed.",
        (
            precondition_failure(type="googleapis.com/billing-enabled", subject=subject),
            error_info(
                "UREQ_PROJECT_BILLING_NOT_FOUND",
                "serviceusage.googleapis.com/billing-enabled",
                project=project_number,
                services=",".join(names),
            ),
        ),
    )
