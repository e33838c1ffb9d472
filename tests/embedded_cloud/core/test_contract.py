"""Google's discovery documents as the contract of requests."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from embedded_cloud.core.contract import Contract
from embedded_cloud.core.errors import CloudError
from tests.embedded_cloud.api import FLEX_START

_TPU = "tpu.projects.locations"
_CREATE = f"{_TPU}.queuedResources.create"


def _body(path: str, value: Any) -> dict[str, Any]:
    """:data:`FLEX_START` with ``value`` at a dotted path (numbers index lists)."""
    body = copy.deepcopy(FLEX_START)
    at: Any = body
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in parents:
        at = at.setdefault(part, {}) if isinstance(at, dict) else at[part]
    at[last] = value
    return body


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "tpu.nodeSpec.0.x",
            1,
            'Invalid JSON payload received. Unknown name "x" at '
            "'queued_resource.tpu.node_spec[0]': Cannot find field.",
        ),
        (
            "nope",
            None,
            "Invalid JSON payload received. Unknown name \"nope\" at 'queued_resource': "
            "Cannot find field.",
        ),
        (
            "provisioningModel",
            "flex-start",
            "Invalid value at 'queued_resource.provisioning_model' "
            '(type.googleapis.com/ProvisioningModel), "flex-start"',
        ),
        (
            "runDuration.maxRunDuration",
            "2h",
            "Invalid value at 'queued_resource.run_duration.max_run_duration' "
            '(type.googleapis.com/google.protobuf.Duration), "2h"',
        ),
        (
            "queueingPolicy.validUntilTime",
            "tomorrow",
            "Invalid value at 'queued_resource.queueing_policy.valid_until_time' "
            '(type.googleapis.com/google.protobuf.Timestamp), "tomorrow"',
        ),
        (
            "tpu.nodeSpec.0.node.labels.a",
            1,
            "Invalid value at 'queued_resource.tpu.node_spec[0].node.labels[a]' (TYPE_STRING), int",
        ),
        (
            "tpu.nodeSpec.0.node.networkConfig.enableExternalIps",
            "no",
            "Invalid value at "
            "'queued_resource.tpu.node_spec[0].node.network_config.enable_external_ips' "
            '(TYPE_BOOL), "no"',
        ),
        (
            "tpu.nodeSpec.0.node.tags",
            [1],
            "Invalid value at 'queued_resource.tpu.node_spec[0].node.tags[0]' (TYPE_STRING), int",
        ),
        (
            "tpu",
            [],
            "Invalid value at 'queued_resource.tpu' (type.googleapis.com/Tpu), list",
        ),
        (
            "tpu.nodeSpec.0.node.runtimeVersion",
            "",
            "Missing required field: queued_resource.tpu.node_spec[0].node.runtime_version",
        ),
        (
            "tpu.nodeSpec.0.parent",
            None,
            "Missing required field: queued_resource.tpu.node_spec[0].parent",
        ),
    ],
)
def test_a_body_that_does_not_fit_is_refused_in_googles_words(
    path: str, value: Any, message: str
) -> None:
    """Unknown fields, wrong types, enum values, formats and missing fields, with their path."""
    contract = Contract.load("tpu", "v2alpha1")
    with pytest.raises(CloudError) as caught:
        contract.check_body(_CREATE, _body(path, value))
    assert (caught.value.http_status, caught.value.reason) == (400, "INVALID_ARGUMENT")
    assert caught.value.message == message
    assert caught.value.details[0]["@type"] == "type.googleapis.com/google.rpc.BadRequest"


def test_flex_start_does_not_exist_in_v2() -> None:
    """v2 refuses the fields of Flex-start: they are alpha."""
    contract = Contract.load("tpu", "v2")
    with pytest.raises(CloudError, match='Unknown name "provisioningModel"'):
        contract.check_body(_CREATE, copy.deepcopy(FLEX_START))


def test_output_only_fields_are_dropped() -> None:
    """What only the server sets is ignored in a request, at every depth."""
    body = _body("tpu.nodeSpec.0.node.state", "READY")
    body |= {"name": "n", "createTime": "x", "state": {"state": "ACTIVE"}}
    assert Contract.load("tpu", "v2alpha1").check_body(_CREATE, body) == FLEX_START


@pytest.mark.parametrize(
    ("given", "kept"),
    [("100", "100"), (100, "100")],
)
def test_int64_travels_as_a_string(given: Any, kept: str) -> None:
    """A 64-bit integer may be sent as a number and is kept as a string."""
    body = _body("tpu.nodeSpec.0.node.bootDiskConfig", {"diskSizeGb": given})
    checked: Any = Contract.load("tpu", "v2alpha1").check_body(_CREATE, body)
    assert checked["tpu"]["nodeSpec"][0]["node"]["bootDiskConfig"] == {"diskSizeGb": kept}


def test_a_patch_need_not_carry_required_fields() -> None:
    """PATCH names its fields in updateMask; the others may be missing."""
    contract = Contract.load("tpu", "v2alpha1")
    assert contract.check_body(f"{_TPU}.nodes.patch", {"labels": {}}) == {"labels": {}}


def test_null_is_absent_except_where_it_clears() -> None:
    """In google.rpc APIs null means default; in Cloud Storage's PATCH it removes a label."""
    tpu = Contract.load("tpu", "v2alpha1")
    assert tpu.check_body(f"{_TPU}.nodes.patch", {"description": None}) == {}
    body: Any = {"labels": {"a": None}, "lifecycle": None}
    assert Contract.load("storage", "v1").check_body("storage.buckets.patch", body) == body


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"validateOnly": "true"}, 'Unknown name "validateOnly": Cannot bind query parameter'),
        ({"force": "maybe"}, "Invalid value at 'force' (TYPE_BOOL), \"maybe\""),
    ],
)
def test_query_parameters_are_checked(query: dict[str, str], message: str) -> None:
    """Unknown parameters and unreadable values are refused."""
    contract = Contract.load("tpu", "v2alpha1")
    with pytest.raises(CloudError) as caught:
        contract.check_query(f"{_TPU}.queuedResources.delete", query)
    assert message in caught.value.message


def test_cloud_storage_ignores_query_parameters_it_does_not_know() -> None:
    """As the real Cloud Storage does."""
    Contract.load("storage", "v1").check_query("storage.buckets.get", {"whatever": "1"})


def test_visible_keeps_only_what_the_version_has() -> None:
    """A v2alpha1 resource seen through v2 has no fields that v2 does not know."""
    seen = Contract.load("tpu", "v2").visible("QueuedResource", copy.deepcopy(FLEX_START))
    assert "runDuration" not in seen
    assert seen["tpu"] == FLEX_START["tpu"]
