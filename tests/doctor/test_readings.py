"""What `tpuflex doctor` reads of Google's APIs: requests and answers."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from tpuflex.doctor.account import Billing, project_billing
from tpuflex.doctor.image import ImageState, image_state
from tpuflex.doctor.policies import OrgPolicy, effective_policy
from tpuflex.doctor.quota import Offer, QuotaLimit, TpuQuota, tpu_quota, zone_offer
from tpuflex.doctor.rights import all_needed
from tpuflex.errors import AccessError, ApiError, NotFoundError, TpuflexError
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.held_permissions import HeldPermissions, held_permissions
from tpuflex.roles.roles import Command, When, roles

NO_SUCH = ApiError("Permission x is not valid.", status=400)


class FakeApi:
    """Answers by path, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, Any]] = []

    def call(
        self, method: str, path: str, *, query: Any = None, body: Any = None, budget: float = 90.0
    ) -> Any:
        self.asked.append((method, path, body or query))
        assert budget == 0, "a reading is tried once"
        found = self.answers[path.rpartition("/")[2]]
        answer = found(body) if callable(found) else found
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answer", "policy"),
    [
        ({"booleanPolicy": {"enforced": True}}, OrgPolicy(enforced=True)),
        ({"booleanPolicy": {}}, OrgPolicy()),
        ({}, OrgPolicy()),
        ({"restoreDefault": {}}, OrgPolicy()),
        ({"listPolicy": {"allValues": "DENY"}}, OrgPolicy(all_denied=True)),
        ({"listPolicy": {"allValues": "ALLOW"}}, OrgPolicy()),
        (
            {"listPolicy": {"allowedValues": ["in:us-locations"], "deniedValues": ["us-east5"]}},
            OrgPolicy(allowed=("in:us-locations",), denied=("us-east5",)),
        ),
    ],
)
def test_policies(answer: Any, policy: OrgPolicy) -> None:
    """A policy of Resource Manager v1, in each of its forms."""
    api = FakeApi(**{"p:getEffectiveOrgPolicy": answer})

    assert effective_policy(api, "p", "compute.requireShieldedVm") == policy
    assert api.asked == [
        (
            "POST",
            "/v1/projects/p:getEffectiveOrgPolicy",
            {"constraint": "constraints/compute.requireShieldedVm"},
        )
    ]


@pytest.mark.parametrize(
    ("answer", "billing"),
    [
        (
            {"billingEnabled": True, "billingAccountName": "billingAccounts/0-0-0"},
            Billing(enabled=True, account="0-0-0"),
        ),
        ({"billingAccountName": "billingAccounts/0-0-0"}, Billing(enabled=False, account="0-0-0")),
        ({"billingAccountName": ""}, Billing(enabled=False, account="")),
    ],
)
def test_billing(answer: Any, billing: Billing) -> None:
    """Billing is on only where the answer says so."""
    assert project_billing(FakeApi(billingInfo=answer), "p") == billing


def test_offers() -> None:
    """An accelerator type or runtime version that is not found is not offered."""
    api = FakeApi(**{"v6e-4": {}, "v2-alpha-tpuv6e": NotFoundError("404")})

    assert zone_offer(api, "p", "us-east5-a", "v6e-4", "v2-alpha-tpuv6e") == Offer(
        accelerator=True, runtime=False
    )
    assert [path for _, path, _ in api.asked] == [
        "/v2alpha1/projects/p/locations/us-east5-a/acceleratorTypes/v6e-4",
        "/v2alpha1/projects/p/locations/us-east5-a/runtimeVersions/v2-alpha-tpuv6e",
    ]


def test_permissions_in_one_call() -> None:
    """All permissions are tested in one call; those that are held come back."""
    api = FakeApi(**{"p:testIamPermissions": {"permissions": ["tpu.nodes.get"]}})

    assert held_permissions(
        api, "/v1/projects/p", ["tpu.nodes.list", "tpu.nodes.get"]
    ) == HeldPermissions(frozenset({"tpu.nodes.get"}))
    assert api.asked == [
        (
            "POST",
            "/v1/projects/p:testIamPermissions",
            {"permissions": ["tpu.nodes.get", "tpu.nodes.list"]},
        )
    ]


def test_a_permission_that_cannot_be_tested_spoils_its_service_only() -> None:
    """A name that the API refuses leaves the permissions of its own service untold, no others."""

    def answer(body: Any) -> Any:
        names = body["permissions"]
        return NO_SUCH if "dns.x" in names else {"permissions": names}

    api = FakeApi(**{"p:testIamPermissions": answer})

    assert held_permissions(api, "/v1/projects/p", ["dns.x", "dns.y", "tpu.a"]) == HeldPermissions(
        frozenset({"tpu.a"}), frozenset({"dns.x", "dns.y"})
    )


def test_another_refusal_is_not_swallowed() -> None:
    """Only a name that is not valid is worked around."""
    api = FakeApi(**{"p:testIamPermissions": ApiError("down", status=503)})

    with pytest.raises(ApiError, match="down"):
        held_permissions(api, "/v1/projects/p", ["tpu.a"])


def bucket(limit: str | None = None, **dimensions: str) -> dict[str, Any]:
    value = {} if limit is None else {"effectiveLimit": limit}
    return {**value, **({"dimensions": dimensions} if dimensions else {})}


def limit(scope: str, *buckets: Any, **more: Any) -> dict[str, Any]:
    return {"unit": f"1/{{project}}/{{{scope}}}", "quotaBuckets": list(buckets), **more}


@pytest.mark.parametrize(
    ("limits", "found"),
    [
        ([limit("zone", bucket("8"))], QuotaLimit("tpu-v6e", "us-east5-a", 8)),
        (
            [limit("zone", bucket("8"), bucket("4", zone="us-east5-a"))],
            QuotaLimit("tpu-v6e", "us-east5-a", 4),
        ),
        (
            [limit("zone", bucket("8"), bucket("4", zone="us-east5-b"))],
            QuotaLimit("tpu-v6e", "us-east5-a", 8),
        ),
        ([limit("zone", bucket("-1"))], QuotaLimit("tpu-v6e", "us-east5-a", None)),
        ([limit("zone", bucket())], QuotaLimit("tpu-v6e", "us-east5-a", 0)),
        (
            [limit("zone", bucket("-1")), limit("region", bucket("2", region="us-east5"))],
            QuotaLimit("tpu-v6e", "us-east5", 2),
        ),
        (
            [limit("zone", bucket("8"), supportedLocations=["us-east5-b"])],
            QuotaLimit("tpu-v6e", "us-east5-a", 0),
        ),
        ([limit("zone")], QuotaLimit("tpu-v6e", "us-east5-a", 0)),
        ([{"unit": "1/{project}", "quotaBuckets": [bucket("8")]}], None),
        ([], None),
    ],
)
def test_a_limit_of_a_zone(limits: list[Any], found: QuotaLimit | None) -> None:
    """The most specific bucket counts, and of zone and region the lower one."""
    metrics: Any = (
        {"metric": "tpu.googleapis.com/tpu-v6e", "consumerQuotaLimits": limits},
        {"metric": "tpu.googleapis.com/tpu-v6e-reserved", "consumerQuotaLimits": []},
    )
    assert TpuQuota(metrics).limit("v6e", 4, "us-east5-a", "on-demand") == found


@pytest.mark.parametrize(
    ("generation", "chips", "metric"),
    [
        ("v6e", 8, "tpu-v6e-preemptible"),
        ("v5p", 4, "tpu-v5p-preemptible"),
        ("v5e", 8, "tpu-v5s-litepod-serving-preemptible"),
        ("v5e", 16, "tpu-v5s-litepod-preemptible"),
    ],
)
def test_the_metric_of_a_slice(generation: str, chips: int, metric: str) -> None:
    """Small slices of v5e have a quota of their own."""
    entry: Any = {
        "metric": f"tpu.googleapis.com/{metric}",
        "consumerQuotaLimits": [limit("zone", bucket("1"))],
    }
    assert TpuQuota((entry,)).limit(generation, chips, "us-east5-a", "preemptible") == QuotaLimit(
        metric, "us-east5-a", 1
    )


def test_a_generation_without_known_metrics_has_no_limit() -> None:
    """Nothing is guessed of a generation whose metrics nobody has seen."""
    assert TpuQuota(()).limit("tpu7x", 4, "us-east5-a", "preemptible") is None


def test_a_limit_that_is_no_number_is_refused() -> None:
    """An answer that makes no sense is an error of the API, and no traceback."""
    entry: Any = {
        "metric": "tpu.googleapis.com/tpu-v6e",
        "consumerQuotaLimits": [limit("zone", bucket("many"))],
    }
    with pytest.raises(ApiError, match="not a number"):
        TpuQuota((entry,)).limit("v6e", 4, "us-east5-a", "on-demand")


def test_quota_is_read_in_full() -> None:
    """The full view has the limits of each zone."""
    api = FakeApi(consumerQuotaMetrics={"metrics": [{"metric": "m"}]})

    assert tpu_quota(api, "p") == TpuQuota(({"metric": "m"},))
    assert api.asked == [
        (
            "GET",
            "/v1beta1/projects/p/services/tpu.googleapis.com/consumerQuotaMetrics",
            {"view": "FULL", "pageSize": "200"},
        )
    ]


def test_the_table_of_permissions() -> None:
    """One call can test them all; `up` needs what a preview needs, and each stack its own."""
    every, needed = all_needed([*When]), roles().needed

    assert 40 < len(every) <= 100
    assert needed(Command.PREVIEW, [When.NAT]).keys() <= needed(Command.UP, [When.NAT]).keys()
    assert "dns.managedZones.create" in needed(Command.UP, [When.PRIVATE])
    assert "dns.managedZones.create" not in needed(Command.UP, [When.NAT])
    assert "compute.routers.create" in needed(Command.UP, [When.NAT])


class Registry:
    """A registry that answers every request in the same way."""

    def __init__(self, status: int, content: bytes = b"{}") -> None:
        self.answer = requests.Response()
        self.answer.status_code = status
        self.answer._content = content
        self.urls: list[str] = []

    def get(
        self,
        url: str,
        *,
        headers: dict[str, str],
        timeout: tuple[float, float],
        allow_redirects: bool,
    ) -> requests.Response:
        assert "manifest" in headers["Accept"]
        assert timeout
        assert not allow_redirects, "a redirect would carry the token elsewhere"
        self.urls.append(url)
        return self.answer


IMAGE = "us-east5-docker.pkg.dev/p/dockerhub/vllm/vllm-tpu@sha256:1"


@pytest.mark.parametrize(
    ("status", "content", "state"),
    [
        (200, b"{}", ImageState.THERE),
        (404, b'{"errors": [{"code": "NAME_UNKNOWN", "message": "no"}]}', ImageState.NO_REPOSITORY),
        (404, b'{"errors": [{"code": "MANIFEST_UNKNOWN"}]}', ImageState.NO_IMAGE),
        (404, b"<html>", ImageState.NO_IMAGE),
    ],
)
def test_an_image_in_a_registry(status: int, content: bytes, state: ImageState) -> None:
    """The registry's code tells a missing repository from a missing image."""
    registry = Registry(status, content)

    assert image_state(registry, Endpoints(), IMAGE) is state
    assert registry.urls == [
        "https://us-east5-docker.pkg.dev/v2/p/dockerhub/vllm/vllm-tpu/manifests/sha256:1"
    ]


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (403, b'{"errors": [{"code": "DENIED", "message": "no"}]}', AccessError),
        (401, b"", AccessError),
        (302, b"", ApiError),
        (429, b'{"errors": []}', ApiError),
        (503, b'{"errors": {}}', ApiError),
        (500, b'["errors"]', ApiError),
    ],
)
def test_a_registry_that_refuses(status: int, content: bytes, error: type[TpuflexError]) -> None:
    """Any other answer leaves it open whether the image is there."""
    with pytest.raises(error, match=f"us-east5-docker.pkg.dev: {status}"):
        image_state(Registry(status, content), Endpoints(), IMAGE)


def test_a_registry_that_is_away() -> None:
    """No answer is no traceback."""

    class Away(Registry):
        def get(self, *_: Any, **__: Any) -> requests.Response:
            raise requests.ConnectTimeout

    with pytest.raises(ApiError, match=r"does not answer \(ConnectTimeout\)"):
        image_state(Away(0), Endpoints(), IMAGE)
