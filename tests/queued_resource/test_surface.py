"""All that the API can say can be said, and whatever is said is sent or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings
from hypothesis import strategies as st

from tests.provider.fakes import args
from tests.queued_resource.inputs import (
    LANDS,
    NOW,
    OTHER,
    URN,
    at,
    changed,
    filled,
    given,
    google_schemas,
    leaves,
)
from tpuflex.naming import LABEL_OWNER, LABEL_SPEC
from tpuflex.queued_resource.body import imported_inputs, node_ids, request_body, spec_hash
from tpuflex.queued_resource.check import failures, parse, with_defaults
from tpuflex.queued_resource.fields import INPUTS, ROWS
from tpuflex.queued_resource.model import QueuedResource
from tpuflex.queued_resource.name import Nodes, RequestName
from tpuflex.queued_resource.rows import OnChange, moment

SCHEMAS = google_schemas()
LOCAL = {key for key, row in ROWS.items() if row.on_change is OnChange.STEERS}
#: Inputs that make other inputs, and are not sent themselves.
MAKES_OTHERS = {"queuedResourceIdPrefix"}
#: Settable fields that no input sets, and why.
NOT_SET = {
    "tpu.nodeSpec.node.health": "set by the service, though the document does not say so",
    "tpu.nodeSpec.node.schedulingConfig.preemptible": "the older word for the spot tier",
    "tpu.nodeSpec.node.schedulingConfig.spot": "said for the request: provisioningModel",
    "tpu.nodeSpec.node.schedulingConfig.reserved": "said for the request: guaranteed.reserved",
    "tpu.nodeSpec.node.schedulingConfig.provisioningModel": "said for the request; the node's"
    " own enumeration has no FLEX_START",
    "tpu.nodeSpec.node.schedulingConfig.reservationName": "said for the request: reservationName",
}


def settable(schema: str, path: str = "") -> Iterator[str]:
    """Paths of the fields without fields of their own that a caller may set."""
    properties = SCHEMAS[schema].get("properties", {})
    if not properties and path:
        yield path
    for name, field in properties.items():
        if field.get("readOnly") or "Output only" in field.get("description", ""):
            continue
        here = f"{path}.{name}" if path else name
        kind = field.get("$ref") or field.get("items", {}).get("$ref")
        if kind:
            yield from settable(kind, here)
        else:
            yield here


def reached(body: Any, path: str = "") -> Iterator[str]:
    """Paths of the fields in ``body``; a list counts as each of its items."""
    if isinstance(body, list):
        for item in body:
            yield from reached(item, path)
        return
    yield path
    if isinstance(body, dict):
        for name, value in body.items():
            yield from reached(value, f"{path}.{name}" if path else name)


def body_of(inputs: dict[str, Any]) -> dict[str, Any]:
    return request_body(parse(inputs))


def test_the_tables_are_complete() -> None:
    """Every input has a test value and a place: a new one cannot be forgotten."""
    assert set(OTHER) == INPUTS
    assert set(LANDS) | LOCAL | MAKES_OTHERS == INPUTS
    assert not set(LANDS) & (LOCAL | MAKES_OTHERS)


@pytest.mark.parametrize("key", sorted(OTHER))
def test_each_other_value_is_acceptable(key: str) -> None:
    """The test values are good ones: what follows is not about refusals."""
    inputs = with_defaults(given(**OTHER[key]), urn=URN, project=None)

    assert failures(inputs, now=moment(NOW)) == []


def test_every_settable_field_can_be_set() -> None:
    """Each field of QueuedResource and Node that a caller may set is set by some input, or is
    listed here with the reason why not."""
    wanted = set(settable("QueuedResource"))
    assert len(wanted) > 45

    sent = {path for key in OTHER for path in reached(body_of(filled(**OTHER[key])))}

    assert wanted - sent == set(NOT_SET)


def test_no_field_is_invented() -> None:
    """Every field that any input sends exists in Google's schema, with its type, and is not an
    output."""

    def check(value: Any, schema: dict[str, Any], where: str) -> None:
        if "$ref" in schema:
            schema = SCHEMAS[schema["$ref"]]
        if isinstance(value, dict):
            entries = schema.get("additionalProperties")
            for name, item in value.items():
                if entries is None:
                    assert name in schema.get("properties", {}), f"{where}.{name} is no field"
                    assert not schema["properties"][name].get("readOnly"), f"{where}.{name}"
                check(item, entries or schema["properties"][name], f"{where}.{name}")
        elif isinstance(value, list):
            assert schema["type"] == "array", where
            for item in value:
                check(item, schema["items"], f"{where}[]")
        else:
            kind = {str: "string", bool: "boolean", int: "integer"}[type(value)]
            assert schema["type"] == kind, where
            assert value in schema.get("enum", [value]), where
            if schema.get("format") == "int64":
                assert isinstance(value, str), where

    for key in OTHER:
        check(body_of(filled(**OTHER[key])), {"$ref": "QueuedResource"}, key)


@settings(max_examples=300)
@hypothesis_given(st.sets(st.sampled_from(sorted(OTHER)), max_size=12))
def test_whatever_is_said_is_sent_or_refused(keys: set[str]) -> None:
    """Any set of inputs is refused by name, or each of them is in the request, where it belongs
    and with all that it holds."""
    said = given(**changed(*sorted(keys)))
    inputs = with_defaults(said, urn=URN, project=None)
    found = failures(inputs, now=moment(NOW))

    if found:
        for path, reason in found:
            assert path.split(".")[0].split("[")[0] in INPUTS
            assert reason
        return
    body = body_of(inputs)
    for key, value in said.items():
        if key == "queuedResourceId" and "multiNode" in said:
            assert at(body, LANDS[key]) is None  # it is in the address; nodes have other ids
        elif key in LANDS:
            landed = at(body, LANDS[key])
            assert landed is not None, key
            if key == "project" or key == "zones":
                assert all(part in landed for part in leaves(value))
            elif key != "bestEffort":
                assert set(leaves(value)) <= set(leaves(landed)), key


@pytest.mark.parametrize("key", sorted(OTHER))
def test_import_is_the_way_back(key: str) -> None:
    """What was asked for with any input is read from the cloud as inputs that ask for the same."""
    asked = parse(filled(**OTHER[key]))
    body = request_body(asked)
    found = QueuedResource.model_validate({**body, "state": {"state": "ACTIVE"}})
    name = RequestName(asked.project, asked.zones[0], asked.queued_resource_id)

    inputs = imported_inputs(name, found, Nodes())

    again = with_defaults(inputs, urn=URN, project=None)
    assert failures(again) == []
    steered = asked.model_copy(update={"on_boot_change": "replace"})
    assert request_body(parse(again)) == request_body(steered)


def test_gcloud_sends_the_same_body() -> None:
    """Our body holds all that gcloud 528 sends for the same request, in the same places."""
    ours: Any = request_body(
        args(
            queuedResourceId="n1",
            project="cloud-project",
            maxRunDuration="7200s",
            metadata={"startup-script": "…", "x": "y"},
            serviceAccount="sa@x",
            network="n",
            subnetwork="s",
            labels={"a": "b", LABEL_OWNER: "1"},
        )
    )
    gcloud = {
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "7200s"},
        "tpu": {
            "nodeSpec": [
                {
                    "node": {
                        "acceleratorType": "v6e-4",
                        "labels": {"a": "b"},
                        "metadata": {"startup-script": "…", "x": "y"},
                        "networkConfig": {
                            "enableExternalIps": False,
                            "network": "n",
                            "subnetwork": "s",
                        },
                        "runtimeVersion": "v2-alpha-tpuv6e",
                        "serviceAccount": {"email": "sa@x"},
                    },
                    "nodeId": "n1",
                    "parent": "projects/cloud-project/locations/us-east5-a",
                }
            ]
        },
    }
    node = ours["tpu"]["nodeSpec"][0]["node"]
    # Ours beyond gcloud's: the owner and spec labels, the scopes, secure boot. gcloud's beyond
    # ours: autocheckpointEnabled false, which is the default.
    assert node["labels"].pop(LABEL_OWNER) == "1"
    assert len(node["labels"].pop(LABEL_SPEC)) == 16
    assert node["serviceAccount"].pop("scope") == ["https://www.googleapis.com/auth/cloud-platform"]
    assert node.pop("shieldedInstanceConfig") == {"enableSecureBoot": False}
    assert ours == gcloud


def test_spot_is_said_in_both_ways() -> None:
    """SPOT names the model and the tier, as gcloud 528 does."""
    body = body_of(filled(**OTHER["provisioningModel"]))

    assert body["provisioningModel"] == "SPOT"
    assert body["spot"] == {}


def test_several_nodes_are_named_by_their_prefix() -> None:
    """Nodes of one request are called PREFIX-0 and so on; without a prefix, by the request's id."""
    assert node_ids(args()) == ("slice-g1",)
    assert node_ids(args(**OTHER["multiNode"])) == ("np-0", "np-1", "np-2")
    assert node_ids(args(multiNode={"nodeCount": 2})) == ("slice-g1-0", "slice-g1-1")


def test_the_fingerprint_leaves_out_what_can_be_patched() -> None:
    """Patching does not make a stranger; anything else does, and the place is in the name."""
    base = spec_hash(args())

    assert spec_hash(args(labels={"tpuflex-owner": "1"}, tags=["a"], description="d")) == base
    assert spec_hash(args(externalIps=True, metadata={"note": "n"})) == base
    assert spec_hash(args(zones=["us-east5-b"])) == base
    assert spec_hash(args(metadata={"startup-script": "s"})) != base
    updating = {"onBootChange": "update"}
    assert spec_hash(args(metadata={"startup-script": "s"}, **updating)) == spec_hash(
        args(metadata={"startup-script": "t"}, **updating)
    )
    for key in ("acceleratorType", "networkConfigs", "bootDisk", "provisioningModel"):
        assert spec_hash(parse(filled(**OTHER[key]))) != base
