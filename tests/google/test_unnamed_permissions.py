"""Every refusal for want of a permission is an AccessError that names it."""

from __future__ import annotations

import json
import re

import pytest

from embedded_cloud.core.contract import Contract
from embedded_cloud.daemon import SERVICES
from embedded_cloud.strict import permissions
from embedded_cloud.strict.permission_table import needs_of
from tpuflex.engine.events import Note
from tpuflex.engine.failure import failure
from tpuflex.errors import AccessError
from tpuflex.google.rpc_errors import as_exception, read_rpc_error
from tpuflex.queued_resource.causes import of_call, of_text
from tpuflex.roles.roles import roles

#: Method -> the API and version that have it.
APIS = {
    method: tuple(service.split("."))
    for service in SERVICES
    for method in Contract.load(*service.split(".")).methods()
}
#: Every permission of roles.yaml with each method that asks for it.
ASKED = sorted(
    {
        (need.permission, method)
        for need in roles().permissions
        for method in need.methods
        if need.permission in (needs_of(method) or ())
    }
)


def refusal(permission: str, method_id: str) -> tuple[str, str, bytes]:
    """HTTP method, address and body of the embedded cloud's refusal, in Google's words."""
    api, version = APIS[method_id]
    verb, template = Contract.load(api, version).address(method_id)
    # Service Usage and Resource Manager have templates such as v1/{v1Id}/{v1Id1}/services.
    whole = template.replace("{v1Id}/{v1Id1}", "projects/p").replace(
        "{v1beta1Id}/{v1beta1Id1}", "projects/p"
    )
    # The name of an API in the address (of its quota, say) is no name of a permission.
    path = re.sub(r"(?<=services/)\{\w+\}", "tpu.googleapis.com", whole)
    path = re.sub(r"\{\w+\}", "some-name", path)
    resource = path.partition(f"{version}/")[2].partition(":")[0]
    denial = permissions.Denial(api, method_id, resource, (permission,), "me@example.com")
    error = permissions.BY_SERVICE.get(api, permissions.common)(denial)
    return verb, f"https://{api}.googleapis.com{path}", json.dumps(error.body()).encode()


@pytest.mark.parametrize(("permission", "method_id"), ASKED)
def test_our_clients_name_what_is_missing(permission: str, method_id: str) -> None:
    """403 becomes an AccessError (exit code 6) with the permission in its text."""
    verb, url, body = refusal(permission, method_id)
    error = as_exception(read_rpc_error(403, body), method=verb, url=url)
    assert isinstance(error, AccessError)
    assert permission in error.message


#: Methods that the gcp plugin calls, and not our own clients.
PLUGIN = re.compile(
    r"(compute|dns|iam|storage\.buckets|secretmanager\.projects\.secrets)\."
    r"|cloudresourcemanager\.projects\.[gs]etIamPolicy|serviceusage\.services\.enable"
    r"|monitoring\.projects\.(alertPolicies|dashboards)\."
)


@pytest.mark.parametrize(("permission", "method_id"), [a for a in ASKED if PLUGIN.match(a[1])])
def test_what_the_gcp_plugin_says_names_what_is_missing(permission: str, method_id: str) -> None:
    """The plugin passes on Google's words only, without the call: the same, from the engine."""
    _, _, body = refusal(permission, method_id)
    words = json.loads(body)["error"]["message"]
    note = Note("error", f"Error applying it: googleapi: Error 403: {words}, forbidden", "net")
    error = failure("up", [note], "")
    assert isinstance(error, AccessError)
    assert permission in error.message


def test_what_is_named_is_not_named_again() -> None:
    """Google's own text stays as it is."""
    named = "Permission 'tpu.nodes.get' denied on resource '//tpu.googleapis.com/p'"
    assert of_call("GET", "https://x/v1/projects/p", named) == ""
    assert of_text(named) == ""
    assert of_call("GET", "https://x/v1/projects/p/other/thing", "no") == ""
