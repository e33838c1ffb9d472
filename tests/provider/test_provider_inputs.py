"""What a program may say: defaults, refusals, diffs and the request body."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from provider_fakes import INPUTS, args
from tpuflex.lifecycle import Lifecycle
from tpuflex.naming import LABEL_OWNER, LABEL_SPEC, Names
from tpuflex.provider.arguments import QueuedResourceArgs, failures, input_properties, with_defaults
from tpuflex.provider.codec import UNKNOWN, Properties
from tpuflex.provider.diff import INPUTS as INPUT_NAMES
from tpuflex.provider.diff import PATCHABLE, Kind, diff
from tpuflex.provider.request import BOOT_METADATA, request_body

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"
#: Another acceptable value for every input, none of them the default.
OTHER: dict[str, Any] = {
    "queuedResourceId": "slice-g2",
    "project": "other-project",
    "zones": ["us-east5-b"],
    "acceleratorType": "v6e-8",
    "runtimeVersion": "v2-alpha-tpuv5-lite",
    "serviceAccount": "other@cloud-project.iam.gserviceaccount.com",
    "maxRunDuration": "7200s",
    "network": "n",
    "subnetwork": "s",
    "scopes": ["https://www.googleapis.com/auth/devstorage.read_only"],
    "tags": ["vllm"],
    "labels": {"tpuflex-owner": "ffff"},
    "metadata": {"note": "x"},
    "description": "for people",
    "provisioningModel": "FLEX_START",
    "externalIps": True,
    "validUntilDuration": "3600s",
    "secureBoot": False,
}
SETTABLE = sorted(set(OTHER) - {"provisioningModel"})  # which has one value for now


def filled(**changed: Any) -> Properties:
    return with_defaults({**INPUTS, **changed}, urn=URN, project=None)


def test_the_table_of_other_values_is_complete() -> None:
    """Every input has a test value: a new one cannot be forgotten."""
    assert set(OTHER) == INPUT_NAMES
    assert failures(filled(**OTHER)) == []


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
    assert node.pop("shieldedInstanceConfig") == {"enableSecureBoot": True}
    assert ours == gcloud


def test_body_is_what_the_discovery_document_allows() -> None:
    """Every field of a request with everything set exists in Google's schema, with its type."""
    spec = find_spec("googleapiclient")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "discovery_cache" / "documents"
    schemas = json.loads((folder / "tpu.v2alpha1.json").read_text())["schemas"]

    def check(value: Any, schema: dict[str, Any], where: str) -> None:
        if "$ref" in schema:
            schema = schemas[schema["$ref"]]
        if isinstance(value, dict):
            entries = schema.get("additionalProperties")
            for key, item in value.items():
                if entries is None:
                    assert key in schema["properties"], f"{where}.{key} is no field"
                    assert "Output only" not in schema["properties"][key].get("description", "")
                check(item, entries or schema["properties"][key], f"{where}.{key}")
        elif isinstance(value, list):
            assert schema["type"] == "array", where
            for item in value:
                check(item, schema["items"], f"{where}[]")
        else:
            kind = {str: "string", bool: "boolean"}[type(value)]
            assert schema["type"] == kind, where
            assert value in schema.get("enum", [value]), where

    check(request_body(args(**OTHER)), {"$ref": "QueuedResource"}, "body")


@pytest.mark.parametrize("key", SETTABLE)
def test_every_input_reaches_the_request(key: str) -> None:
    """No input is accepted and then dropped: changing it changes what is posted, or where."""
    base, other = args(), args(**{key: OTHER[key]})

    def posted(given: QueuedResourceArgs) -> str:
        return f"{given.project} {given.zones} {given.queued_resource_id} {request_body(given)}"

    assert posted(base) != posted(other)


@pytest.mark.parametrize("key", SETTABLE)
def test_exactly_the_immutable_inputs_replace(key: str) -> None:
    """An input replaces exactly when `nodes.patch` cannot change it."""
    found = diff(filled(), filled(**{key: OTHER[key]}))

    assert found.changes
    assert found.replaces == (key not in PATCHABLE)


@pytest.mark.parametrize("key", sorted(BOOT_METADATA))
def test_boot_metadata_replaces(key: str) -> None:
    """What only takes effect at a boot replaces; other metadata does not."""
    found = diff(filled(metadata={key: "a", "x": "1"}), filled(metadata={key: "b", "x": "2"}))

    assert found.changes[f'metadata["{key}"]'].replaces
    assert not found.changes["metadata.x"].replaces


@pytest.mark.parametrize("key", SETTABLE)
def test_unknown_values_pass_and_never_replace(key: str) -> None:
    """During a preview any input may be unknown: no refusal, no premature replacement."""
    new = {**filled(), key: UNKNOWN}

    assert failures(new) == []
    assert not diff(filled(), new).replaces


@pytest.mark.parametrize(
    ("stands", "change", "replaces"),
    [
        (None, False, False),
        (Lifecycle.ACTIVE, False, False),
        (Lifecycle.ENDED, False, False),
        (Lifecycle.WAITING, True, False),
        (Lifecycle.PROVISIONING, True, False),
        (Lifecycle.FAILED, True, True),
        (Lifecycle.LOST, True, True),
        (Lifecycle.DELETING, True, True),
    ],
)
def test_where_it_stands_decides(stands: Lifecycle | None, change: bool, replaces: bool) -> None:
    """Waiting goes on, failed and lost are replaced, ended is left alone."""
    found = diff(filled(), filled(), stands)

    assert bool(found.changes) is change
    assert found.replaces is replaces


def test_same_name_is_deleted_first() -> None:
    """Old and new cannot exist together under one name; under two names they can."""
    assert diff(filled(), filled(acceleratorType="v6e-8")).delete_before_replace
    assert not diff(filled(), filled(queuedResourceId="slice-g2")).delete_before_replace


def test_networks_may_be_spelt_by_name_or_path() -> None:
    """A network's name and its full path are the same network; two paths must be equal."""
    path, other = "projects/p/global/networks/n", "projects/q/global/networks/n"

    assert not diff(filled(network="n"), filled(network=path)).changes
    assert not diff(filled(network=path), filled(network="n")).changes
    assert diff(filled(network=path), filled(network=other)).replaces
    assert diff(filled(network="n"), filled()).replaces


def test_kinds_are_told_apart() -> None:
    """Added, deleted and changed entries are shown as such."""
    found = diff(
        filled(labels={"a": "1", "b": "1", LABEL_OWNER: "x"}, description="d"),
        filled(labels={"b": "2", "c": "1", LABEL_OWNER: "x"}),
    )

    assert {path: change.kind for path, change in found.changes.items()} == {
        "labels.a": Kind.DELETE,
        "labels.b": Kind.UPDATE,
        "labels.c": Kind.ADD,
        "description": Kind.DELETE,
    }


_subsets = st.sets(st.sampled_from(SETTABLE))


@given(_subsets)
def test_nothing_changes_into_itself(keys: set[str]) -> None:
    """diff(x, x) is empty, whatever is set."""
    inputs = filled(**{key: OTHER[key] for key in keys})

    assert not diff(inputs, inputs).changes
    assert diff(inputs, input_properties(QueuedResourceArgs.model_validate(inputs))).changes == {}


@given(_subsets, _subsets)
def test_diff_is_the_union_of_single_changes(left: set[str], right: set[str]) -> None:
    """Two inputs replace together exactly when one of the differing ones replaces alone."""
    old = filled(**{key: OTHER[key] for key in left})
    new = filled(**{key: OTHER[key] for key in right})

    assert diff(old, new).replaces == bool((left ^ right) - set(PATCHABLE))


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=12),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
            max_leaves=6,
        ),
    )
)
def test_any_input_is_accepted_or_refused_by_name(given_inputs: dict[str, Any]) -> None:
    """Whatever a program sends, the answer is a list of named findings, never an accident."""
    inputs = with_defaults(given_inputs, urn=URN, project=None)

    for path, reason in failures(inputs):
        assert path
        assert reason


def test_defaults_are_deterministic_and_ours() -> None:
    """Id and owner labels are made of project, stack and logical name; given ones stay."""
    minimal: Properties = {
        k: v for k, v in INPUTS.items() if k not in ("queuedResourceId", "labels")
    }
    names = Names(project="shop", stack="dev", name="slice")

    made = with_defaults({**minimal, "labels": {"team": "x"}}, urn=URN, project="p")

    assert made["queuedResourceId"] == names.queued_resource_id()
    assert made["labels"] == {"team": "x", **names.labels()}
    assert made["project"] == INPUTS["project"]
    assert made == with_defaults({**minimal, "labels": {"team": "x"}}, urn=URN, project="p")
    assert filled()["labels"] == INPUTS["labels"]


@pytest.mark.parametrize(
    ("changed", "path", "words"),
    [
        ({"zones": ["us-east5-a", "us-east5-b"]}, "zones", "several zones are not supported yet"),
        ({"zones": []}, "zones", "Write one zone"),
        ({"zones": ["nowhere"]}, "zones[0]", "Write one zone"),
        ({"maxRunDuration": "604801s"}, "maxRunDuration", "at most 604800s (7d)"),
        ({"maxRunDuration": "60s"}, "maxRunDuration", "at least 600s"),
        ({"maxRunDuration": "4h"}, "maxRunDuration", "such as 14400s"),
        ({"provisioningModel": "SPOT"}, "provisioningModel", "not supported yet"),
        ({"labels": {"Team": "x", LABEL_OWNER: "1"}}, 'labels["Team"]', "lower-case"),
        ({"labels": {LABEL_SPEC: "x", LABEL_OWNER: "1"}}, "labels", "provider itself"),
        ({"metadata": {"k": "x" * 262145}}, "metadata", "262145 bytes"),
        ({"nodeCount": 2}, "nodeCount", "no such input"),
        ({"description": "x" * 513}, "description", "512"),
    ],
)
def test_refusals_name_the_input_and_the_remedy(
    changed: dict[str, Any], path: str, words: str
) -> None:
    """What cannot be honoured is refused before any call, with what to write instead."""
    assert [(where, words in why) for where, why in failures(filled(**changed))] == [(path, True)]


def test_metadata_values_never_show_in_refusals() -> None:
    """A refusal about metadata does not print the metadata."""
    ((_, reason),) = failures(filled(metadata={"k": "canary" * 50000}))

    assert "canary" not in reason


def test_missing_inputs_are_all_named() -> None:
    """Everything that is missing is reported at once."""
    found = failures(with_defaults({}, urn=URN, project=None))

    assert {path for path, _ in found} == {
        "project",
        "zones",
        "acceleratorType",
        "runtimeVersion",
        "serviceAccount",
        "maxRunDuration",
    }


def test_python_and_wire_names_agree() -> None:
    """The SDK class translates every property name to the wire and back."""
    from tpuflex.provider.resource import _OUTPUTS, _camel

    for name in (*QueuedResourceArgs.model_fields, *_OUTPUTS):
        assert _camel(name) == to_camel(name)
