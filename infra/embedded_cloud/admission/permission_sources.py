"""Where the permissions of methods were read, 2026-11-21."""

from __future__ import annotations

from enum import Enum


class Source(Enum):
    """A page or data set that names the permissions of methods."""

    DATA_SET = "https://github.com/iann0036/iam-dataset gcp/map.json, commit 2073fa5"
    STORAGE = "https://docs.cloud.google.com/storage/docs/access-control/iam-json"
    SECRETS = "https://docs.cloud.google.com/secret-manager/docs/audit-logging"
    IAM = "https://docs.cloud.google.com/iam/docs/audit-logging"
    RESOURCE_MANAGER = "https://docs.cloud.google.com/resource-manager/reference/rest/v1/projects"
    SERVICE_USAGE = "https://docs.cloud.google.com/service-usage/docs/audit-logging"
    DNS = "https://docs.cloud.google.com/dns/docs/access-control"
    COMPUTE = "https://docs.cloud.google.com/vpc/docs/audit-logging, .../nat/docs/audit-logging"
    LOGGING = "https://docs.cloud.google.com/logging/docs/access-control"
    ORGANIZATION_POLICY = "https://docs.cloud.google.com/iam/docs/roles-permissions/orgpolicy"
    ARTIFACT_REGISTRY = "https://docs.cloud.google.com/artifact-registry/docs/access-control"
    DISCOVERY = "the description of the method in Google's discovery document"
    INFERRED = "inferred from the methods beside it"
    UNKNOWN = "nothing tells; nobody is refused"
