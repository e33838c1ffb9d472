"""Sentences of others that have to be read: of Pulumi's engine and plugins, of Google, of gcloud.

Each comes without a code that would say the same. It stands here once, with a text as it was
recorded, or as its source writes it; what follows from it is decided where it is used. What has a
code is read by that, and nothing of our own is read by its words. What the server on a host writes
is read there, by :mod:`tpuflex.startup.server_log`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum


class Speaker(StrEnum):
    """Who says it."""

    ENGINE = "Pulumi's engine"
    AUTOMATION_API = "Pulumi's Automation API"
    GCP_PLUGIN = "the gcp plugin, or Google through it"
    GOOGLE = "Google"
    GCLOUD = "gcloud, or ssh under it"
    PIP = "pip"


class Sentence:
    """One of them, or several that mean the same.

    Args:
        speaker: who says it.
        pattern: a regular expression for what is found in it.
        recorded: texts that say it; shortened where they go on.
        source: where it is written, if that is known.
        flags: of the regular expression.
    """

    def __init__(
        self,
        speaker: Speaker,
        pattern: str,
        *recorded: str,
        source: str = "",
        flags: re.RegexFlag = re.NOFLAG,
    ) -> None:
        self.speaker = speaker
        self.recorded = recorded
        self.source = source
        self._pattern = re.compile(pattern, flags)

    def search(self, text: str) -> re.Match[str] | None:
        """Where ``text`` says it first; None if it does not."""
        return self._pattern.search(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Each place where ``text`` says it."""
        return self._pattern.finditer(text)

    def removed(self, text: str) -> str:
        """``text`` without it."""
        return self._pattern.sub("", text)


# -- the engine ------------------------------------------------------------------------------

STACK_LOCKED = Sentence(
    Speaker.ENGINE,
    r"the stack is currently locked by|Another update is currently in progress",
    "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to"
    " end or delete the lock file with `pulumi cancel`.",
    "error: [409] Conflict: Another update is currently in progress.",
    source="pulumi: pkg/backend/diy/lock.go; Pulumi Cloud's API",
)
LOCK_HOLDER = Sentence(
    Speaker.ENGINE,
    r"created by (?P<user>\S+)@(?P<host>\S+) \(pid (?P<pid>\d+)\) at (?P<time>\S+)",
    "  file:///b/locks/1.json: created by jo@desk (pid 812) at 2026-11-21T12:02:04Z",
    source="pulumi: pkg/backend/diy/lock.go",
)
#: A lock that is no file here.
LOCK_IN_BUCKET = Sentence(
    Speaker.ENGINE,
    r"^\s*(gs|s3|azblob)://\S+: created by",
    "  gs://states/.pulumi/locks/organization/p/dev/1.json: created by jo@desk (pid 812) at"
    " 2026-11-21T12:02:04Z",
    source="pulumi: pkg/backend/diy/lock.go",
    flags=re.MULTILINE,
)
#: About the whole, after it has said what went wrong.
ECHO = Sentence(
    Speaker.ENGINE,
    r"^(?:error: )?(?:(?:update|preview|destroy|refresh) failed"
    r"|resource operation was cancelled.*|an unhandled error occurred:[\s\S]*)$",
    "update failed",
    "error: preview failed",
    "resource operation was cancelled, the request was never sent",
    "an unhandled error occurred: Program exited with non-zero exit code: 1",
)
#: Everything down to the line with the error.
TRACEBACK = Sentence(
    Speaker.ENGINE,
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*",
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n'
    "ValueError: boom",
    flags=re.MULTILINE,
)
PROGRAM_ERROR = Sentence(
    Speaker.AUTOMATION_API,
    r"python inline source runtime error: (?P<error>.*)",
    "python inline source runtime error: no attribute 'x'",
    source="pulumi: sdk/python/lib/pulumi/automation/_server.py",
)
#: Where the engine ends well, without the usual summary.
NO_SUMMARY = Sentence(
    Speaker.AUTOMATION_API,
    r"summary event never found",
    "summary event never found",
    source="pulumi: sdk/python/lib/pulumi/automation/_stack.py",
)
#: A file of the backend that a kill has truncated.
STATE_TORN = Sentence(
    Speaker.ENGINE,
    r"failed to load checkpoint|snapshot integrity failure",
    "error: failed to load checkpoint: EOF",
    "error: snapshot integrity failure; it was already written, but is invalid",
)
#: A state file that is not whole JSON, beside what :data:`STATE_TORN` finds.
NOT_WHOLE_JSON = Sentence(
    Speaker.ENGINE,
    r"unexpected end of JSON input|invalid character",
    "error: could not deserialize deployment: unexpected end of JSON input",
    "error: invalid character 'x' looking for beginning of value",
)
#: At the beginning of an operation that follows a killed one.
PENDING_OPERATIONS = Sentence(
    Speaker.ENGINE,
    r"pending operations? from previous deployment",
    "Attempting to deploy or update resources with 1 pending operations from previous deployment.",
)
NO_STACK = Sentence(
    Speaker.ENGINE, r"no stack named '(?P<stack>[^']+)' found", "error: no stack named 'dev' found"
)
#: Of a backend that is not Pulumi Cloud.
NO_ENVIRONMENTS = Sentence(
    Speaker.ENGINE,
    r"does not support environments",
    "error: backend https://state.example.com does not support environments",
    source="pulumi: pkg/cmd/pulumi/config/config_env.go",
)
NO_PASSPHRASE = Sentence(
    Speaker.ENGINE,
    r"passphrase",
    "error: getting secrets manager: passphrase must be set with PULUMI_CONFIG_PASSPHRASE or"
    " PULUMI_CONFIG_PASSPHRASE_FILE environment variables",
)
#: A step, or an input, that is not in the plan which the engine is held to.
UNPLANNED = Sentence(
    Speaker.ENGINE,
    r"^(?P<step>\S+) is not allowed by the plan\b|\bis not allowed by the plan\b|\bviolates plan\b",
    "create is not allowed by the plan: no steps were expected for this resource",
    "resource urn:pulumi:dev::p::t::vllm violates plan: properties changed: =~a[b]",
    source="pulumi: pkg/resource/deploy/step_generator.go",
)
#: A resource with steps in that plan to which it did not come, or which were not needed.
NOT_COME_TO = Sentence(
    Speaker.ENGINE,
    r"^(?:error: )?expected resource operations for (?P<urn>\S+) but none were seen$",
    "error: expected resource operations for urn:pulumi:dev::p::t::vllm but none were seen",
    source="pulumi: pkg/resource/deploy/deployment_executor.go",
)
#: A plugin has died under it; behind that, what the plugin had printed.
PLUGIN_DIED = Sentence(
    Speaker.ENGINE,
    r"Detected that \S*?(?P<plugin>[^\s/]+) exited prematurely(?:[\s\S]*?streams of the plugin:)?"
    r"(?P<printed>[\s\S]*)",
    "Detected that /home/me/.pulumi/plugins/gcp-v9/pulumi-resource-gcp exited prematurely. \n"
    "       This is *always* a bug in the provider.\n       To assist with debugging we have dumped"
    " the STDOUT and STDERR streams of the plugin:\npanic: nil\n",
)

# -- plugins, and Google through them --------------------------------------------------------

#: Before the errors of one call.
ERROR_LIST = Sentence(
    Speaker.GCP_PLUGIN, r"^(?:\d+ errors? occurred:\s*\*\s*)+", "1 error occurred:\n\t* boom\n\n"
)
#: Around an error that a Terraform-based plugin logs, and reports as well without this.
LOGGED = Sentence(
    Speaker.GCP_PLUGIN,
    r"^\S+\.go:\d+: sdk\.\w+: |: provider=[\w-]+@\S+$",
    "sdk-v2/provider2.go:571: sdk.helper_schema: Error creating Network: Invalid value:"
    " provider=google-beta@10.2.0",
    source="pulumi-terraform-bridge: pkg/tfshim/sdk-v2/provider2.go",
)
#: A delete of what is gone, on which the plugin fails for a bucket.
GONE = Sentence(
    Speaker.GCP_PLUGIN,
    r"googleapi: Error 404: ",
    "Error deleting contents of object b/o: googleapi: Error 404: The specified bucket does not"
    " exist., notFound",
    source="terraform-provider-google: resource_storage_bucket.go, resourceStorageBucketDelete",
)
#: A name that is taken: mostly by an earlier run whose create was answered too late for the state.
EXISTS = Sentence(
    Speaker.GCP_PLUGIN,
    r"Error 409: (?:.*already ?exists|.*you already own it)",
    "Error creating Network: googleapi: Error 409: The resource 'projects/p/global/networks/n'"
    " already exists, alreadyExists",
    "googleapi: Error 409: Your previous request to create the named bucket succeeded and you"
    " already own it., conflict",
    flags=re.IGNORECASE,
)
#: A bucket name that another project has.
BUCKET_NAME_TAKEN = Sentence(
    Speaker.GCP_PLUGIN,
    r"bucket name(?: \S+)? is not available",
    "googleapi: Error 409: The requested bucket name is not available., conflict",
    source="https://cloud.google.com/storage/docs/json_api/v1/status-codes#409-conflict",
)
#: Objects that a bucket's retention policy keeps.
RETAINED = Sentence(
    Speaker.GCP_PLUGIN,
    r"(?:Object|Bucket) '(?P<bucket>[^/']+)[^']*' (?:is subject to bucket's retention policy"
    r"|contains objects that have not met the retention period)",
    "googleapi: Error 403: Object 'b/model.safetensors' is subject to bucket's retention policy and"
    " cannot be deleted, overwritten or archived until 2026-12-01T00:00:00Z, forbidden",
    "Object 'b/model.safetensors' is subject to bucket's retention policy or object retention and"
    " cannot be deleted or overwritten until 2026-09-30T15:58:01.185839-07:00",
    "Bucket 'b' contains objects that have not met the retention period yet and cannot be deleted.",
    source="terraform-provider-google: resource_storage_bucket.go, resourceStorageBucketDelete",
)
#: A network that a firewall rule keeps.
NETWORK_IN_USE = Sentence(
    Speaker.GCP_PLUGIN,
    r"network resource 'projects/(?P<project>[^/']+)/global/networks/[^/']+' is already being used"
    r" by 'projects/[^']+/global/firewalls/(?P<rule>[^/']+)'",
    "googleapi: Error 400: The network resource 'projects/p/global/networks/tpuflex-dev-vllm' is"
    " already being used by 'projects/p/global/firewalls/org-allow-scanner',"
    " resourceInUseByAnotherResource",
    source="https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-in-use",
)
#: A quota, in the words of other plugins.
PLUGIN_QUOTA = Sentence(
    Speaker.GCP_PLUGIN,
    r"quota",
    "Error waiting to create Network: Quota 'NETWORKS' exceeded. Limit: 5.0 globally.",
    flags=re.IGNORECASE,
)
PLUGIN_REFUSED = Sentence(
    Speaker.GCP_PLUGIN,
    r"PERMISSION_DENIED|[Pp]ermission|UNAUTHENTICATED|access denied",
    "googleapi: Error 403: Permission 'dns.changes.create' denied on resource"
    " '//dns.googleapis.com/projects/shop-ml/managedZones/z/changes'",
)
#: Forbidden, in whatever words; a mere rate limit is no permission.
PLUGIN_FORBIDDEN = Sentence(
    Speaker.GCP_PLUGIN,
    r"googleapi: Error 403: (?!.*[rR]ateLimit)",
    "Error deleting DNS RecordSet: googleapi: Error 403: Forbidden, forbidden",
    flags=re.DOTALL,
)
#: An API that is not enabled, or was a moment ago.
API_DISABLED = Sentence(
    Speaker.GCP_PLUGIN,
    r"SERVICE_DISABLED|accessNotConfigured|has not been used in project",
    "googleapi: Error 403: Cloud DNS API has not been used in project 1 before or it is disabled.,"
    " accessNotConfigured",
)
#: The plugin does not tell the call that was refused; these do not name the permission either.
SET_POLICY_DENIED = Sentence(
    Speaker.GCP_PLUGIN,
    r"Policy update access denied",
    'Error applying IAM policy for project "p": googleapi: Error 403: Policy update access'
    " denied., forbidden",
)
ENABLE_SERVICE_DENIED = Sentence(
    Speaker.GCP_PLUGIN,
    r"Permission denied to enable service",
    "googleapi: Error 403: Permission denied to enable service [dns.googleapis.com]",
)
LIST_SERVICES_DENIED = Sentence(
    Speaker.GCP_PLUGIN,
    r"Permission denied to list services",
    "googleapi: Error 403: Permission denied to list services for consumer container [projects/1]",
)
GET_SERVICE_DENIED = Sentence(
    Speaker.GCP_PLUGIN,
    r"Permission denied to get service",
    "googleapi: Error 403: Permission denied to get service [dns.googleapis.com]",
)
#: Of a project's policy, which the plugin reads before it changes it.
GET_POLICY_DENIED = Sentence(
    Speaker.GCP_PLUGIN,
    r"The caller does not have permission",
    'Error retrieving IAM policy for project "p": googleapi: Error 403: The caller does not have'
    " permission, forbidden",
)

# -- Google ----------------------------------------------------------------------------------

POLICY_FORBIDS = Sentence(
    Speaker.GOOGLE,
    r"\bconstraints/[a-z]+\.[A-Za-z]+",
    "Constraint constraints/compute.requireShieldedVm violated for project 1. Secure Boot is not"
    " enabled in the 'shielded_instance_config' field.",
)
NOT_GRANTED_IN_TIME = Sentence(
    Speaker.GOOGLE,
    r"not fulfilled while it was valid|valid.?until",
    "The request was not fulfilled while it was valid",
    flags=re.IGNORECASE,
)
OUT_OF_QUOTA = Sentence(
    Speaker.GOOGLE,
    r"quota|IN_USE_ADDRESSES",
    "Quota 'TPUV6EPerProjectPerZoneForTPUAPI' exhausted. Limit 64",
    "You have reached IN_USE_ADDRESSES limit",
    flags=re.IGNORECASE,
)
OUT_OF_CAPACITY = Sentence(
    Speaker.GOOGLE,
    r"no more capacity|stock-?out|RESOURCE_POOL_EXHAUSTED|insufficient (?:reserved )?capacity"
    r"|does not have enough resources available",
    "There is no more capacity in the zone us-east5-a",
    "Insufficient reserved capacity. Contact customer support to increase your reservation.",
    "The zone 'projects/p/zones/us-central1-a' does not have enough resources available to fulfill"
    " the request.  Try a different zone, or try again later.",
    "GCE_STOCKOUT",
    "ZONE_RESOURCE_POOL_EXHAUSTED",
    flags=re.IGNORECASE,
)
ABOUT_BILLING = Sentence(
    Speaker.GOOGLE,
    r"billing",
    "Billing account for project '1' is not found.",
    flags=re.IGNORECASE,
)
NOT_PERMITTED = Sentence(
    Speaker.GOOGLE,
    r"permission|has not been used in project|disabled",
    "Permission 'tpu.nodes.create' denied",
    "Cloud TPU API has not been used in project 1 before",
    flags=re.IGNORECASE,
)
UNSUPPORTED = Sentence(
    Speaker.GOOGLE,
    r"not supported|not found in zone|unsupported",
    "FLEX_START provisioning model is not supported for accelerator",
    "accelerator v9-1 not found in zone",
    flags=re.IGNORECASE,
)
#: A project without an open billing account, in the words of most services, and of Cloud Storage.
NO_BILLING_ACCOUNT = Sentence(
    Speaker.GOOGLE,
    r"billing (?:to|must) be enabled|requires billing|BILLING_DISABLED|accountDisabled"
    r"|billing account for the owning project is disabled",
    "This API method requires billing to be enabled. Please enable",
    "Billing must be enabled for activation of service(s)",
    "The billing account for the owning project is disabled",
    source="https://cloud.google.com/storage/docs/json_api/v1/status-codes#403-forbidden",
    flags=re.IGNORECASE,
)
#: How much a quota is.
QUOTA_LIMIT = Sentence(
    Speaker.GOOGLE,
    r"limit:?\s+(?:is\s+)?(?P<limit>\d+)",
    "Quota 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' exhausted. Limit 0 in zone us-east5-a",
    flags=re.IGNORECASE,
)
#: A quota of chips or addresses, which no amount of retrying refills.
RESOURCE_QUOTA = Sentence(
    Speaker.GOOGLE,
    r"Per(Project)?Per(Zone|Region)|IN_USE_ADDRESSES|Limit:? 0\b",
    "Quota 'TPUV6EPerProjectPerZone' exhausted. Limit 0 in zone",
)
RATE_LIMITED = Sentence(
    Speaker.GOOGLE,
    r"per minute|per second|rate limit|too many requests",
    "Quota exceeded for 'Requests per minute'",
    flags=re.IGNORECASE,
)
#: A user's credential without a quota project, in today's words and earlier ones. The reason is
#: SERVICE_DISABLED there, too: not enabled in the project of gcloud's OAuth client.
NO_QUOTA_PROJECT = Sentence(
    Speaker.GOOGLE,
    r"requires a quota project|end user credentials from the Google Cloud SDK",
    "Your application is authenticating by using local Application Default Credentials. The"
    " secretmanager.googleapis.com API requires a quota project, which is not set by default.",
    "Your application has authenticated using end user credentials from the Google Cloud SDK or"
    " Google Cloud Shell which are not supported by the secretmanager.googleapis.com.",
    source="https://github.com/pulumi/pulumi-gcp/issues/2896,"
    " https://github.com/cloudquery/cloudquery/pull/5031",
)
#: Cloud Storage, to a request that names no project to pay.
REQUESTER_PAYS = Sentence(
    Speaker.GOOGLE,
    r"requester pays bucket but no user project",
    "Bucket is a requester pays bucket but no user project provided.",
    "Bucket is requester pays bucket but no user project provided.",
    source="https://cloud.google.com/storage/docs/requester-pays",
    flags=re.IGNORECASE,
)

#: What errors of Google's library for Cloud Storage begin with: the call that was refused.
STORAGE_CALL = Sentence(
    Speaker.GOOGLE,
    r"^[A-Z]+ https?://\S+: ",
    "GET https://storage.googleapis.com/storage/v1/b/b/o?prefix=m: me@example.com does not have"
    " storage.objects.list access to the Google Cloud Storage bucket.",
    source="google-api-core: google/api_core/exceptions.py, from_http_response",
)

# -- gcloud, and ssh under it ----------------------------------------------------------------

#: IAP closes a connection that it does not forward with a code of its own (GoogleCloudPlatform/
#: iap-desktop, `SshRelayCloseCode`), which gcloud shows (its `iap_tunnel_websocket.py`).
IAP_NOT_AUTHORIZED = Sentence(
    Speaker.GCLOUD,
    r"\[4033:",
    "ERROR: (gcloud.alpha) Error while connecting [4033: 'not authorized'].",
    source="iap-desktop: SshRelayCloseCode",
)
IAP_NO_BACKEND = Sentence(
    Speaker.GCLOUD,
    r"\[4003:",
    "Error while connecting [4003: 'failed to connect to backend']. (Failed to connect to port 22)",
    source="iap-desktop: SshRelayCloseCode",
)
IAP_NO_HOST = Sentence(
    Speaker.GCLOUD,
    r"\[4047:|\[4051:",
    "Error while connecting [4047: 'Failed to lookup instance'].",
    source="iap-desktop: SshRelayCloseCode",
)
IAP_LOGIN_WANTED = Sentence(
    Speaker.GCLOUD,
    r"\[4004:|\[4054:",
    "Error while connecting [4004: 'reauthentication required'].",
    source="iap-desktop: SshRelayCloseCode",
)
NO_HOST_NAME = Sentence(
    Speaker.GCLOUD,
    r"disableGuestAttributesAccess|IapTunnelingUnavailable|Failed to connect to TPU",
    "ERROR: (gcloud.alpha.compute.tpus.tpu-vm.ssh) Failed to connect to TPU. Please check that the"
    " constraint compute.disableGuestAttributesAccess is not enforced.",
)
NOT_LOGGED_IN = Sentence(
    Speaker.GCLOUD,
    r"auth login\b|do not currently have an active account|Reauthentication",
    "ERROR: (gcloud.alpha) You do not currently have an active account selected. Please run: $"
    " gcloud auth login",
)
KEY_REFUSED = Sentence(
    Speaker.GCLOUD,
    r"Permission denied \(publickey",
    "user@tpu.1: Permission denied (publickey).",
)
#: What is left of `publickey,keyboard-interactive` once the key was taken.
SECOND_FACTOR_WANTED = Sentence(
    Speaker.GCLOUD,
    r"Permission denied \(keyboard-interactive",
    "user@tpu.1: Permission denied (keyboard-interactive).",
    source="https://cloud.google.com/compute/docs/oslogin/set-up-oslogin#os-login-2fa",
)
GCLOUD_REFUSED = Sentence(
    Speaker.GCLOUD,
    r"PERMISSION_DENIED|does not have permission|Required '[\w.]+' permission",
    "ERROR: (gcloud.alpha) PERMISSION_DENIED: Required 'tpu.nodes.get' permission",
)
PORT_IN_USE = Sentence(
    Speaker.GCLOUD,
    r"Address already in use|cannot listen to port",
    "bind [127.0.0.1]:8000: Address already in use",
    "channel_setup_fwd_listener_tcpip: cannot listen to port: 8000",
)

# -- pip -------------------------------------------------------------------------------------

OTHER_HASHES = Sentence(
    Speaker.PIP,
    r"DO NOT MATCH THE HASHES",
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated"
    " the package versions, please update the hashes.",
)
RETRYING = Sentence(
    Speaker.PIP,
    r"^WARNING: Retrying",
    "WARNING: Retrying (Retry(total=0, connect=None, read=None)) after connection broken by"
    " 'NewConnectionError('[Errno -2] Name or service not known')': /simple/x/",
)
NO_CONNECTION = Sentence(
    Speaker.PIP,
    r"\[Errno -?\d+\] [^')]+|timed out|SSLError[^']*",
    "[Errno -2] Name or service not known",
    "Connection to proxy.example.com timed out. (connect timeout=15)",
)

#: All of them, by name.
SENTENCES: Mapping[str, Sentence] = {
    name: value for name, value in globals().items() if isinstance(value, Sentence)
}
