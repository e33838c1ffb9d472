"""The environment that points clients at the embedded cloud.

The variables are read by gcloud (``CLOUDSDK_*``), Google's Python libraries
(``STORAGE_EMULATOR_HOST``), the Pulumi engine, the published gcp plugin (``GOOGLE_*``) and our own
clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from embedded_cloud.core.access import TOKEN_FILE, USER_ACCOUNT, read_token

#: The project that is used when none is named.
DEFAULT_PROJECT = "tpuflex-embedded"

#: The port of the daemon by default.
DEFAULT_PORT = 8470

#: Where the small Hub is; :mod:`embedded_cloud.services.hub` needs aiohttp, which is an extra.
HUB_PATH = "/huggingface"

#: Where the published gcp plugin finds the APIs that a stack uses: variables of
#: terraform-provider-google-beta 7.45.0, and the paths that its own defaults have
#: (https://registry.terraform.io/providers/hashicorp/google/latest/docs/guides/provider_reference).
#: Compute's and DNS's own are those of the beta APIs, which are not served here.
_PLUGIN_ENDPOINTS = {
    "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": "/compute/v1/",
    "GOOGLE_DNS_CUSTOM_ENDPOINT": "/dns/v1/",
    "GOOGLE_IAM_BETA_CUSTOM_ENDPOINT": "/v1/",  # service accounts
    "GOOGLE_IAM_CUSTOM_ENDPOINT": "/v1/",
    "GOOGLE_KMS_CUSTOM_ENDPOINT": "/v1/",
    "GOOGLE_MONITORING_CUSTOM_ENDPOINT": "/",
    "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT": "/v1/",
    "GOOGLE_SECRET_MANAGER_CUSTOM_ENDPOINT": "/v1/",
    "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": "/v1/",
    "GOOGLE_STORAGE_CUSTOM_ENDPOINT": "/storage/v1/",
}


def client_environment(
    *,
    base_url: str,
    state_dir: Path,
    project: str = DEFAULT_PROJECT,
    gcp_plugin_port: int | None = None,
    credentials: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Variables for clients of the embedded cloud at ``base_url``.

    Args:
        base_url: address of the emulator without trailing slash.
        state_dir: the emulator's state directory; its parent is tpuflex's home.
        project: project id that clients use by default.
        gcp_plugin_port: port of the stand-in for the gcp provider; without it the engine
            starts the published plugin, which these variables lead here.
        credentials: variables that name Application Default Credentials, as the control API issues
            them; without them, the token that does not expire.

    Raises:
        EmulatorError: the embedded cloud never ran in ``state_dir``: there is no token.
    """
    home = state_dir.parent
    environment = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{base_url}/storage/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{base_url}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAM": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDRESOURCEMANAGER": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_SERVICEUSAGE": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_ORGPOLICY": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_DNS": f"{base_url}/dns/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_OSLOGIN": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": f"{base_url}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_ARTIFACTREGISTRY": f"{base_url}/",
        "STORAGE_EMULATOR_HOST": base_url,
        "HF_ENDPOINT": f"{base_url}{HUB_PATH}",
        "CLOUDSDK_CORE_PROJECT": project,
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(state_dir / TOKEN_FILE),
        "CLOUDSDK_CONFIG": str(state_dir / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        **(credentials or {"GOOGLE_OAUTH_ACCESS_TOKEN": read_token(state_dir)}),
        "GOOGLE_CLOUD_PROJECT": project,
        "GOOGLE_PROJECT": project,
        "TPUFLEX_EMULATOR": base_url,
        "PULUMI_BACKEND_URL": f"file://{home / 'backend'}",
        "PULUMI_CONFIG_PASSPHRASE": "tpuflex-embedded",
        "PULUMI_HOME": str(home / "pulumi-home"),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    environment |= {name: f"{base_url}{path}" for name, path in _PLUGIN_ENDPOINTS.items()}
    if gcp_plugin_port is not None:
        environment["PULUMI_DEBUG_PROVIDERS"] = f"gcp:{gcp_plugin_port}"
    else:
        # It would ask Google which regions there are.
        environment["PULUMI_GCP_SKIP_REGION_VALIDATION"] = "true"
    return environment


def tunnel_environment(port: int, certificate: Path) -> dict[str, str]:
    """Further variables for gcloud when it connects to a host through the emulated IAP.

    gcloud takes its connection to IAP, and nothing else, to the door as to a proxy: the APIs are
    called over plain HTTP. It takes the account of OS Login from its configuration.

    Args:
        port: the door's port.
        certificate: the relay's certificate.
    """
    return {
        "https_proxy": f"http://127.0.0.1:{port}",
        "HTTPS_PROXY": f"http://127.0.0.1:{port}",
        "no_proxy": "",
        "NO_PROXY": "",
        "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": str(certificate),
        "CLOUDSDK_CORE_ACCOUNT": USER_ACCOUNT,
        # gcloud makes an SSH key in ~/.ssh, and notes the hosts there: not among the user's own.
        "HOME": str(certificate.parent),
    }
