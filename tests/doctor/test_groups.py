"""`tpuflex doctor`, group by group: from what was read to the whole text in goldens/doctor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.cli.typing import NOON, Captured
from tests.goldens.golden_texts import assert_golden
from tpuflex.advice import Advice
from tpuflex.boot.manifest import PART_BYTES, WeightsFile, manifest
from tpuflex.cli.doctor.run import show
from tpuflex.cli.invocation import Invocation
from tpuflex.doctor import (
    account,
    enabled_apis,
    image,
    machine,
    policies,
    rights,
    state,
    weights,
)
from tpuflex.doctor.account import Billing
from tpuflex.doctor.check import Check
from tpuflex.doctor.image import ImageState
from tpuflex.doctor.policies import OrgPolicy
from tpuflex.doctor.quota import Offer, TpuQuota, Wanted, offer_checks, quota_checks
from tpuflex.errors import AccessError, EngineError, SettingsError, WeightsError
from tpuflex.google.api_states import ApiState
from tpuflex.google.credentials import Credential, Kind
from tpuflex.google.held_permissions import HeldPermissions
from tpuflex.google.reading import Unread
from tpuflex.google.required_apis import GoogleApi
from tpuflex.google.transport import JsonObject
from tpuflex.operate.gcloud import Gcloud
from tpuflex.planning.model_files import WeightsProblem
from tpuflex.project import open_project
from tpuflex.roles.roles import Command, When, roles
from tpuflex.settings.model import StackSettings
from tpuflex.stack.stack import read_stack
from tpuflex.weights.stored_set import WeightsCheck
from tpuflex.weights.trust import Choice

DENIED = Unread("403 PERMISSION_DENIED: not you", "Ask for the role.")


@pytest.fixture
def shown(capsys: Captured) -> Callable[[Sequence[Check]], str]:
    """The whole text for some checks, without the empty line and the summary at its end."""

    def text(checks: Sequence[Check]) -> str:
        show(Invocation(environ={}, now=lambda: NOON, verbose=True), checks)
        return capsys.readouterr().out.rpartition("\n\n")[0] + "\n"

    return text


@pytest.fixture
def settings(project: Path) -> StackSettings:
    return read_stack(open_project(project, {}), "dev").settings


Shown = Callable[[Sequence[Check]], str]


def test_this_machine(shown: Shown) -> None:
    """Engine, plugins, gcloud and the embedded cloud, as they may be found."""
    checks = [
        machine.engine_check("Pulumi 3.256.0, /opt/pulumi"),
        machine.engine_check(""),
        machine.engine_check(AccessError("others may write there", hint="chmod go-w DIR")),
        machine.plugin_check(machine.Plugin("tpuflex", "/bin/p", fetched=False, remedy="")),
        machine.plugin_check(machine.Plugin("tpuflex", "", fetched=False, remedy="pip install")),
        machine.plugin_check(machine.Plugin("gcp", "", fetched=True, remedy="pulumi plugin x")),
        machine.plugin_error("gcp", AccessError("others may write there", hint="chmod go-w P")),
        machine.gcloud_check(None),
        machine.gcloud_check(Gcloud("gcloud", frozenset({"core"}))),
        machine.gcloud_check(Gcloud("gcloud", frozenset({"core", "alpha"}))),
        machine.gcloud_check(Unread("does not work", "Try: gcloud version")),
        machine.embedded_check(["aiohttp"], "", ""),
        machine.embedded_check([], "", "its vLLM is not installed yet"),
        machine.embedded_check([], "http://127.0.0.1:8470", ""),
        machine.embedded_check([], "", ""),
    ]
    assert_golden("doctor/machine.txt", shown(checks))


def test_the_state(shown: Shown) -> None:
    """A backend that answers or not, and a lock of each kind of holder."""
    held = {
        holder: [state.HeldLock("process 7 of me on here", holder, Advice("{recover}"))]
        for holder in state.Holder
    }
    checks = [
        state.backend_check("file:///p/.tpuflex/backend"),
        state.backend_check(EngineError("/states does not exist", hint="mkdir -p /states")),
        state.backend_check(Unread("there is no engine yet", "tpuflex engine --install")),
        state.lock_check([]),
        *(state.lock_check(held[holder]) for holder in state.Holder),
        state.lock_check(Unread("the lock cannot be read", "rm it")),
        state.lock_check(Unread("it refuses", state.listing_of_locks("gs://my-state/here?x=y"))),
        state.lock_elsewhere_check(),
    ]
    assert_golden("doctor/state.txt", shown(checks))


def test_credential_and_project(shown: Shown) -> None:
    """Each kind of credential, with its quota project; a project's state, and its billing."""
    adc = "~/.config/gcloud/application_default_credentials.json"
    checks = [
        account.credential_check(Credential(Kind.USER, adc, quota_project="p"), "p"),
        account.credential_check(Credential(Kind.USER, adc), "p"),
        account.credential_check(Credential(Kind.USER, "/f.json"), "p", named=True),
        account.credential_check(Credential(Kind.IMPERSONATED, adc, "a@p.iam"), "p"),
        account.credential_check(AccessError("no credentials", hint="Run: log in"), ""),
        account.project_check("p", account.ProjectState("12", "ACTIVE")),
        account.project_check("p", account.ProjectState("12", "DELETE_REQUESTED")),
        account.project_check("p", DENIED),
        account.billing_check("p", Billing(enabled=True, account="0-0-0")),
        account.billing_check("p", Billing(enabled=False, account="")),
        account.billing_check("p", Billing(enabled=False, account="0-0-0")),
        account.billing_check("p", DENIED),
    ]
    assert_golden("doctor/project.txt", shown(checks))


def test_apis(shown: Shown) -> None:
    """An API in each of its states, and the one without which none can be enabled."""
    states = {
        **{GoogleApi(state.name.lower()): state for state in ApiState},
        GoogleApi("serviceusage"): ApiState.DISABLED,
    }
    assert_golden("doctor/apis.txt", shown(enabled_apis.api_checks("p", states)))


def test_an_api_that_others_have_to_enable(shown: Shown) -> None:
    """It fails where `up` enables none."""
    states = {GoogleApi("tpu"): ApiState.DISABLED, GoogleApi("compute"): ApiState.ANSWERS}
    checks = enabled_apis.api_checks("p", states, managed=False)
    assert_golden("doctor/apis-of-others.txt", shown(checks))


def test_image(shown: Shown) -> None:
    """An image in a registry that has it, lacks it, has no such repository, or refuses."""
    name = f"us-east5-docker.pkg.dev/p/dockerhub/vllm/vllm-tpu@sha256:{'1' * 64}"
    old = f"gcr.io/p/vllm-tpu@sha256:{'1' * 64}"
    checks = [
        *(image.image_check(name, found) for found in (*ImageState, DENIED)),
        image.image_check(old, ImageState.NO_REPOSITORY),
    ]
    assert_golden("doctor/image.txt", shown(checks))


def test_permissions(shown: Shown) -> None:
    """Each command on a line; what is missing is named with a role that has it. Only `up` and the
    preview that it begins with fail for it."""
    stacks = (When.PRIVATE,)
    every = rights.all_needed(stacks)
    checks = rights.permission_checks(
        "p",
        stacks,
        HeldPermissions(
            every - {"tpu.nodes.create", "tpu.nodes.delete"}, frozenset({"dns.changes.get"})
        ),
    )
    assert_golden("doctor/permissions.txt", shown(checks))
    untold = rights.permission_checks(
        "p", stacks, HeldPermissions(every, frozenset({"dns.changes.get"}))
    )
    assert untold[2].text == "the API does not tell of dns.changes.get"
    assert {check.standing for check in rights.permission_checks("p", stacks, DENIED)} == {
        "unknown"
    }


@pytest.mark.parametrize("when", [(When.PRIVATE, When.OWN_IMAGES), (When.NAT,)])
@pytest.mark.parametrize("command", rights.COMMANDS)
def test_each_permission_that_is_missing_is_named(command: Command, when: tuple[When, ...]) -> None:
    """With any one permission missing, each command that needs it names it and a role that
    has it; for the others all is well."""
    every = rights.all_needed(when)
    for missing in every:
        checks = rights.permission_checks("p", when, HeldPermissions(every - {missing}))
        check = checks[rights.COMMANDS.index(command)]
        needed = roles().needed(command, when)
        if missing in needed:
            assert check.text == f"missing: {missing}"
            assert f"--role={needed[missing]}\n" in str(check.remedy)
            assert check.standing == ("failed" if command in ("up", "preview") else "warning")
        else:
            assert check.standing == "ok"


def test_many_missing_permissions_are_counted() -> None:
    """Somebody without any right reads six names and a number, and every role."""
    _, _, up, *_ = rights.permission_checks("p", (When.NAT,), HeldPermissions(frozenset()))

    assert str(up.text).startswith(
        "missing: compute.firewalls.create, compute.firewalls.get, compute."
    )
    assert str(up.text).endswith(" more")
    assert "--role=roles/storage.admin" in str(up.remedy)
    assert "--role=roles/dns.admin" not in str(up.remedy)


def test_policies(shown: Shown, settings: StackSettings) -> None:
    """A policy that forbids the endpoint fails, with the command and the setting that mend it;
    those that do not concern the stack are skipped."""
    nat = settings.model_copy(
        update={"network": settings.network.model_copy(update={"egress": "internet"})}
    )
    read: dict[str, OrgPolicy | Unread] = {
        "compute.disableGuestAttributesAccess": OrgPolicy(enforced=True),
        "compute.requireShieldedVm": OrgPolicy(enforced=True),
        "iam.disableServiceAccountCreation": DENIED,
        "compute.restrictCloudNATUsage": OrgPolicy(all_denied=True),
        "gcp.resourceLocations": OrgPolicy(allowed=("in:eu-locations",)),
    }
    checks = list(policies.policy_checks(nat, read))
    assert_golden("doctor/policies.txt", shown(checks[:2] + checks[3:]))


@pytest.mark.parametrize(
    ("policy", "standing"),
    [
        (OrgPolicy(), "ok"),
        (OrgPolicy(allowed=("us-east5",)), "ok"),
        (OrgPolicy(allowed=("in:us-east5-locations",)), "ok"),
        (OrgPolicy(allowed=("in:us-locations",)), "ok"),
        (OrgPolicy(denied=("in:eu-locations",)), "ok"),
        (OrgPolicy(denied=("in:us-locations",)), "warning"),
        (OrgPolicy(allowed=("in:us-west1-locations",)), "warning"),
        (OrgPolicy(all_denied=True), "failed"),
    ],
)
def test_allowed_locations(settings: StackSettings, policy: OrgPolicy, standing: str) -> None:
    """A region is allowed by its name or by the value groups that bear its name."""
    fine = {each.name: OrgPolicy() for each in policies.ALL}
    *_, location = policies.policy_checks(settings, {**fine, "gcp.resourceLocations": policy})

    assert location.standing == standing
    assert ("no location is allowed" in str(location.text)) == policy.all_denied


def test_every_region_has_to_be_allowed(settings: StackSettings) -> None:
    """Of zones in several regions, those are named that are not among the allowed places."""
    zones = ("us-east5-a", "europe-west4-a")
    slice_ = settings.slice.model_copy(update={"zones": zones})
    several = settings.model_copy(update={"slice": slice_})

    def location(*allowed: str) -> Check:
        fine = {each.name: OrgPolicy() for each in policies.ALL}
        read = {**fine, "gcp.resourceLocations": OrgPolicy(allowed=allowed)}
        *_, found = policies.policy_checks(several, read)
        return found

    refused, fine = location("in:us-locations"), location("us-east5", "in:europe-locations")
    assert (refused.standing, fine.standing) == ("warning", "ok")
    assert str(refused.text).startswith("europe-west4 is not among the allowed places")
    assert fine.text == "us-east5 and europe-west4 are allowed"


WANTED = Wanted("p", "v6e-4", "v6e", 4, "v2-alpha-tpuv6e", ("us-east5-a", "us-east5-b"))


def quota(**limits: int) -> TpuQuota:
    """A quota with these limits: ``preemptible_a=4`` is in us-east5-a."""

    def metric(pool: str, name: str) -> JsonObject:
        buckets: list[JsonValue] = [{"effectiveLimit": "0"}]
        for key, value in limits.items():
            if key.startswith(pool):
                zone: JsonObject = {"zone": f"us-east5-{key[-1]}"}
                buckets.append({"dimensions": zone, "effectiveLimit": str(value)})
        limit: JsonObject = {"unit": "1/{project}/{zone}", "quotaBuckets": buckets}
        return {"metric": f"tpu.googleapis.com/{name}", "consumerQuotaLimits": [limit]}

    return TpuQuota((metric("preemptible", "tpu-v6e-preemptible"), metric("demand", "tpu-v6e")))


def test_capacity(shown: Shown) -> None:
    """One zone that has it all is enough; what the other lacks is a warning."""
    offers: dict[str, Offer | Unread] = {
        "us-east5-a": Offer(accelerator=True, runtime=True),
        "us-east5-b": Offer(accelerator=False, runtime=True),
    }
    checks = [
        *offer_checks(WANTED, offers),
        *quota_checks(WANTED, quota(preemptible_a=64)),
        *quota_checks(WANTED, quota(demand_a=4)),
    ]
    assert_golden("doctor/capacity.txt", shown(checks))


@pytest.mark.parametrize(
    ("limit", "hands_over", "standing"),
    [(7, True, "warning"), (8, True, "ok"), (4, False, "ok"), (4, True, "warning")],
)
def test_quota_for_one_only(limit: int, hands_over: bool, standing: str) -> None:
    """Enough for one slice is not enough for a hand-over from one to another, unless the stack file
    says that the old one goes first; which is the way out."""
    wanted = replace(WANTED, zones=("us-east5-a",), hands_over=hands_over)

    (check,) = quota_checks(wanted, quota(preemptible_a=limit))

    assert check.standing == standing
    assert ("tpuflex:slice.replace" in str(check.remedy)) is (standing == "warning")


def test_no_zone_can_give_it() -> None:
    """If no zone has it, each fails; the exit code says whether to change the file or the quota."""
    nowhere: dict[str, Offer | Unread] = dict.fromkeys(
        WANTED.zones, Offer(accelerator=True, runtime=False)
    )
    checks = [
        *offer_checks(WANTED, nowhere),
        *quota_checks(WANTED, quota(preemptible_a=3, demand_b=1)),
    ]

    assert [(check.standing, check.kind.exit_code) for check in checks] == [("failed", 5)] * 2 + [
        ("failed", 6)
    ] * 2
    assert "tpuflex:slice.runtime_version" in str(checks[0].remedy)


def test_one_unread_zone_forbids_nothing() -> None:
    """Where one zone cannot be read, what the other lacks is no failure."""
    offers: dict[str, Offer | Unread] = {
        "us-east5-a": DENIED,
        "us-east5-b": Offer(accelerator=False, runtime=False),
    }
    assert [check.standing for check in offer_checks(WANTED, offers)] == [
        "unknown",
        "warning",
    ]


STORED = WeightsCheck(
    "0" * 64,
    manifest(
        [
            WeightsFile(
                path="model.safetensors",
                size=2_500_000_000,
                crc32c="AAAAAA==",
                sha256="0" * 64,
                parts=("0" * 64,) * -(-2_500_000_000 // PART_BYTES),
            )
        ],
        model="m",
        revision="1",
    ),
    (),
)
DAMAGED = WeightsCheck(
    STORED.sha256,
    STORED.manifest,
    (WeightsProblem("a", "missing"), WeightsProblem("b", "size")),
)


def test_weights(shown: Shown) -> None:
    """Weights in the bucket, those with a source, and those that nobody can push."""
    push = "tpuflex weights push DIRECTORY --stack dev"
    bare = weights.WeightsPlace("gs://b/models/m/1", "", None, push)
    sourced = weights.WeightsPlace("gs://b/models/m/1", "./m", None, push)
    wrong = SettingsError("the stack file", (), hint="Name a directory.")
    misspelt = weights.WeightsPlace("gs://b/models/m/1", "./m", wrong, push)
    active = weights.WeightsPlace("gs://b/models/m/1", "./m", None, push, active=True)
    pinned = weights.WeightsPlace("gs://b/models/m/1", "", None, push, pinned=True)
    strange = WeightsError("Nothing says that it is yours.", hint="Accept it by name.")
    checks = [
        weights.weights_check(bare, STORED, Choice.SERVE),
        weights.weights_check(bare, STORED, strange),
        weights.weights_check(pinned, STORED, strange),
        weights.weights_check(bare, None, strange),
        weights.weights_check(bare, DAMAGED, Choice.SERVE),
        weights.weights_check(sourced, None, Choice.PUSH),
        weights.weights_check(replace(sourced, pinned=True), STORED, Choice.PUSH),
        weights.weights_check(active, DAMAGED, Choice.COMPARE),
        weights.weights_check(misspelt, None, Choice.PUSH),
        weights.weights_check(misspelt, STORED, Choice.COMPARE),
        weights.weights_check(bare, DENIED, strange),
    ]
    assert_golden("doctor/weights.txt", shown(checks))
