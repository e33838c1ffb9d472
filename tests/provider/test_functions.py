"""The package's functions without an engine: what they take, ask and answer."""

from __future__ import annotations

from typing import Any

import pytest

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.wire import decode, encode, secret_keys
from tests.provider.direct import Provider
from tests.provider.fakes import NAME, Cloud, FakeTime, node, queued, sequence
from tpuflex.errors import ApiError, TpuflexError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.provider.call import Call
from tpuflex.provider.functions import FUNCTIONS, ArgumentsError, invoke

VERSIONS = "tpuflex:tpu:getRuntimeVersions"
TYPES = "tpuflex:tpu:getAcceleratorTypes"
LOOKUP = "tpuflex:tpu:getQueuedResource"
HERE = {"zone": "us-east5-a", "queuedResourceId": NAME.rpartition("/")[2]}


class Pages:
    """An API that answers with one page after the other, and keeps the questions."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        self.pages = [*pages]
        self.asked: list[tuple[str, str]] = []

    def call(self, _method: str, path: str, *, query: Any = None, **_: Any) -> dict[str, Any]:
        self.asked.append((path, (query or {}).get("pageToken", "")))
        return self.pages.pop(0)


def asked(api: Pages) -> Call:
    """An engine call on ``api``."""
    return Call(TpuClient(api), FakeTime().timing(), lambda *_, **__: None)  # type: ignore[arg-type]


def never() -> Call:
    """No call is made."""
    raise AssertionError("the API was asked")


def test_all_pages_are_read_in_order() -> None:
    """What a zone has on several pages comes back sorted, in the provider's project."""
    api = Pages(
        {"runtimeVersions": [{"version": "v2-b"}], "nextPageToken": "2"},
        {"runtimeVersions": [{"version": "v2-a"}, {"name": "without one"}]},
    )

    answer = invoke(VERSIONS, {"zone": "us-east5-a"}, "ours", lambda: asked(api))

    assert answer == {"runtimeVersions": ["v2-a", "v2-b"]}
    path = "/v2alpha1/projects/ours/locations/us-east5-a/runtimeVersions"
    assert api.asked == [(path, ""), (path, "2")]


def test_a_project_that_is_given_counts() -> None:
    """Types come with their shapes; fields that Google adds are left out."""
    config = {"type": "V6E", "topology": "2x2"}
    found = {"name": "long", "type": "v6e-4", "acceleratorConfigs": [config]}
    api = Pages({"acceleratorTypes": [found]})
    given = {"zone": "us-east5-a", "project": "theirs"}

    answer = invoke(TYPES, given, "ours", lambda: asked(api))  # type: ignore[arg-type]

    assert answer == {"acceleratorTypes": [{"type": "v6e-4", "acceleratorConfigs": [config]}]}
    assert "/projects/theirs/" in api.asked[0][0]


def test_a_zone_that_does_not_answer_is_no_empty_zone() -> None:
    """A list that is not complete is an error."""
    api = Pages({"runtimeVersions": [], "unreachable": ["us-east5-a"]})

    with pytest.raises(ApiError, match="did not answer"):
        invoke(VERSIONS, {"zone": "us-east5-a"}, "ours", lambda: asked(api))


@pytest.mark.parametrize("token", sorted(FUNCTIONS))
def test_arguments_are_checked_before_anything_is_asked(token: str) -> None:
    """All that is wrong with them at once, each by name."""
    with pytest.raises(ArgumentsError) as refused:
        invoke(token, {"zone": "us-east5", "projct": "p", "project": 3}, "ours", never)

    found = dict(refused.value.findings)
    assert found.keys() >= {"zone", "projct", "project"}
    assert found["projct"] == "there is no such argument"
    assert "'us-east5'" in found["zone"]
    if token == LOOKUP:
        assert found["queuedResourceId"] == "it is required"


def test_without_a_project_it_says_where_to_set_it() -> None:
    """Neither the argument nor the provider names one."""
    with pytest.raises(TpuflexError, match="set it on the provider"):
        invoke(VERSIONS, {"zone": "us-east5-a"}, None, never)


def look_up(args: Any) -> provider_pb2.InvokeResponse:
    """The servicer's reply about an ACTIVE slice."""
    provider = Provider(Cloud(sequence(queued("ACTIVE")), node=sequence(node())))
    provider.call(
        "Configure", provider_pb2.ConfigureRequest(args=encode({"project": "cloud-project"}))
    )
    reply: provider_pb2.InvokeResponse = provider.call(
        "Invoke", provider_pb2.InvokeRequest(tok=LOOKUP, args=args)
    )
    return reply


def test_a_slice_is_answered_as_its_state_would_show_it() -> None:
    """With what it was asked for and where it stands."""
    answer = decode(getattr(look_up(encode(HERE)), "return"))

    assert (answer["name"], answer["lifecycle"]) == (NAME, "active")
    assert answer["runtimeVersion"] == "v2-alpha-tpuv6e"


def test_what_was_asked_with_a_secret_is_answered_as_one() -> None:
    """An answer repeats its arguments."""
    answer = getattr(look_up(encode(HERE, secrets={"queuedResourceId"})), "return")

    assert secret_keys(answer) == answer.fields.keys()


def test_wrong_arguments_are_failures_of_the_reply() -> None:
    """The engine shows them as such."""
    (failure,) = look_up(encode({**HERE, "zones": "x"})).failures

    assert (failure.property, failure.reason) == ("zones", "there is no such argument")


def test_a_secret_that_is_wrong_is_not_repeated() -> None:
    """The engine prints why an argument is refused; what is no secret is shown there."""
    wrong = {**HERE, "zone": "canary zone", "queuedResourceId": "a?b"}

    reasons = {f.property: f.reason for f in look_up(encode(wrong, secrets={"zone"})).failures}

    assert "canary" not in "".join(reasons.values())
    assert "should match" in reasons["zone"]
    assert "'a?b'" in reasons["queuedResourceId"]


@pytest.mark.parametrize(
    ("id_", "taken"),
    [
        ("by-hand_2.x~+", True),
        ("", False),
        ("..", False),
        (".hidden", False),
        ("a?b=c", False),
        ("a#b", False),
        ("a/b", False),
        ("a%2fb", False),
        ("a b", False),
        ("a\n", False),
        ("é", False),
    ],
)
def test_an_id_leads_to_nothing_but_a_queued_resource(id_: str, taken: bool) -> None:
    """It is a part of the address that is asked: `..` would be answered by the zone, and read as a
    request that waits."""
    api = Pages(queued("FAILED"), {})
    given = {"zone": "us-east5-a", "queuedResourceId": id_}
    if taken:
        invoke(LOOKUP, given, "ours", lambda: asked(api))  # type: ignore[arg-type]
        assert api.asked[0][0].endswith(f"/queuedResources/{id_}")
        return
    with pytest.raises(ArgumentsError) as refused:
        invoke(LOOKUP, given, "ours", never)  # type: ignore[arg-type]
    assert dict(refused.value.findings).keys() == {"queuedResourceId"}
