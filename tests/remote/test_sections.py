"""What a program in another language gives an endpoint, as it comes from the engine."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from pulumi_plugin.values import (
    OUTPUT_SIGNATURE,
    RESOURCE_SIGNATURE,
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN_SENTINELS,
    UNKNOWN_STRING,
    Properties,
)
from pulumi_plugin.wire import encode
from tests.unit.stack_sections import sections
from tpuflex.components.endpoint_args import VllmEndpointArgs
from tpuflex.errors import SettingsError
from tpuflex.naming import Names
from tpuflex.provider.endpoint_schema import SECTIONS
from tpuflex.remote.sections import endpoint_sections
from tpuflex.settings.load import parse

CANARY = "kept-to-itself"


def signed(signature: str, **parts: object) -> dict[str, object]:
    """A special value as it is on the wire."""
    return {SIGNATURE_KEY: signature, **parts}


def struct(values: Mapping[str, Any]) -> Struct:
    return ParseDict(dict(values), Struct())


def refusal(values: Mapping[str, Any]) -> dict[str, str]:
    """What is refused of ``values``: by path of the property, the problem."""
    with pytest.raises(SettingsError) as refused:
        endpoint_sections(struct(values))
    return {finding.key: finding.problem for finding in refused.value.findings}


def test_sections_come_as_in_a_stack_file() -> None:
    """Whole numbers are whole again: the wire knows none."""
    wanted = sections({"serving.flags": {"max_model_len": 512, "gpu_memory_utilization": 0.5}})

    found = endpoint_sections(encode(wanted))

    assert found.sections == wanted
    assert found.names is None
    flags: Any = found.sections["serving"]
    assert isinstance(flags["flags"]["max_model_len"], int)


def test_what_python_takes_by_itself_is_taken_here() -> None:
    """Without `cloud` it is Google's, and the arguments of the Python class are the inputs."""
    only_there = {"self", "prepare", "state_seen", "environ", "key_unread", "checkpoint"}
    arguments = set(inspect.signature(VllmEndpointArgs.__init__).parameters) - only_there

    assert endpoint_sections(encode(sections({"cloud": None}))).sections["cloud"] == "google"
    assert arguments == {*SECTIONS, "names"}


def test_findings_are_those_of_python_by_the_path_of_the_property() -> None:
    """All at once, and in the words that a Python program and a stack file get."""
    wrong = sections({"slice.max_run_duration": "9d", "slice.zonez": ["a"], "project": None})
    with pytest.raises(SettingsError) as here:
        endpoint_sections(encode(wrong))
    with pytest.raises(SettingsError) as there:
        parse(wrong, "")

    assert "slice.max_run_duration" in {finding.key for finding in here.value.findings}
    assert [(f"tpuflex:{each.key}", each.problem, each.remedy) for each in here.value.findings] == [
        (each.key, each.problem, each.remedy) for each in there.value.findings
    ]


@pytest.mark.parametrize("name", ["colour", "budget", "waivers", "model_"])
def test_other_inputs_are_refused(name: str) -> None:
    """Also sections that only the command line looks at: they would do nothing here."""
    assert "unknown" in refusal({**sections(), name: {}})[name]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (signed(SECRET_SIGNATURE, value=CANARY), "secret"),
        (signed(OUTPUT_SIGNATURE, value=CANARY, secret=True), "secret"),
        (signed(OUTPUT_SIGNATURE), "not known"),
        (UNKNOWN_STRING, "not known"),
        (signed(RESOURCE_SIGNATURE, urn="urn:pulumi:dev::shop::a:b:C::d"), "resource"),
        (signed("c44067f5952c0a294b673a41bacd8c17", text=CANARY), "resource or a file"),
    ],
)
def test_what_is_no_plain_value_is_refused_where_it_is(value: object, problem: str) -> None:
    """Secrets, what is not known yet, resources, files: by path, and never with the value."""
    with pytest.raises(SettingsError) as refused:
        endpoint_sections(
            struct({**sections(), "network": {"allowed_cidrs": ["10.0.0.0/8", value]}})
        )

    (finding,) = refused.value.findings
    assert finding.key == "network.allowed_cidrs[1]"
    assert problem in finding.problem
    assert finding.remedy
    assert CANARY not in str(refused.value)


def test_an_output_that_is_known_is_its_value() -> None:
    """Of one plain value nothing but the value counts; what depends on it the engine knows."""
    project = signed(OUTPUT_SIGNATURE, value="acme-serving", dependencies=["urn:x"])

    assert endpoint_sections(struct({**sections(), "project": project})).sections == sections()


def test_names_that_are_kept() -> None:
    """`names` are those of `tpuflex.Names`, and are checked as the sections are."""
    kept: Properties = {"project": "shop", "stack": "dev", "name": "old", "bucket_suffix": "abcdef"}

    found = endpoint_sections(encode({**sections(), "names": kept}))
    assert found.names == Names("shop", "dev", "old", "abcdef")
    assert set(refusal({**sections(), "names": {"project": 3, "stack": "dev", "nam": "x"}})) == {
        "names.project",
        "names.nam",
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    )
)
def test_whatever_comes_is_answered_with_findings(value: Any) -> None:
    """No value of an input is more than refused."""
    assert refusal({**sections(), "slice": value})


@given(st.sampled_from(sorted(UNKNOWN_SENTINELS)), st.sampled_from(["project", "serving", "names"]))
def test_nothing_unknown_gets_through(sentinel: str, name: str) -> None:
    """Of whatever type the engine says that it is."""
    assert "not known" in json.dumps(refusal({**sections(), name: sentinel})[name])
