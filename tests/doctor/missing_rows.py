"""What can be missing before a first `up`, one thing at a time, and what must be said of it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from embedded_cloud.core.json_types import JsonValue
from tests.checkpoints import pushing, tiny
from tests.doctor.examined import DIGEST, MIRROR, PROJECT, Doctor, quota
from tpuflex.boot.places import weights_prefix
from tpuflex.doctor.check import Standing
from tpuflex.doctor.policies import ALL
from tpuflex.doctor.rights import COMMANDS, all_needed
from tpuflex.google.required_apis import APIS
from tpuflex.roles.roles import Command, When, roles
from tpuflex.settings.weights_source import LocalDirectory
from tpuflex.weights.bucket import weights_bucket
from tpuflex.weights.push_record import remember
from tpuflex.weights.stack_weights import StackWeights

ZONE = "us-east5-a"
FAILED, WARNING, UNKNOWN = Standing.FAILED, Standing.WARNING, Standing.UNKNOWN
SKIPPED, OK = Standing.SKIPPED, Standing.OK


@dataclass(frozen=True)
class Row:
    """One thing that is missing.

    Attributes:
        missing: what, in words.
        take_away: takes it away.
        check: the check of the doctor that says so.
        standing: how that check stands.
        remedy: words of its remedy.
        code: exit code with which `up` refuses; 0 if it goes on, after mending it or because it
            is not needed.
    """

    missing: str
    take_away: Callable[[Doctor], None]
    check: str
    standing: Standing
    remedy: str
    code: int


def api_rows() -> Iterator[Row]:
    """Every API: `up` enables it and waits, but for the one that enables the others."""
    for api in APIS:
        command = f"gcloud services enable {api.service} --project=tpuflex-dev"
        if api.name == "serviceusage":
            enable = f"gcloud services enable {api.service} "
            yield Row(api.service, _no_service_usage, api.service, FAILED, enable, 6)
        else:
            yield Row(api.service, _disabled(api.service), api.service, WARNING, command, 0)


def permission_rows() -> Iterator[Row]:
    """Every permission that a command needs, of either kind of egress. `up` goes on without those
    that it does not need itself, nor its preview."""
    private, nat = ({when, When.OWN_IMAGES} for when in (When.PRIVATE, When.NAT))
    for name in sorted(all_needed(private) | all_needed(nat)):
        stacks, egress = (private, "google") if name in all_needed(private) else (nat, "internet")
        commands = [command for command in COMMANDS if name in roles().needed(command, stacks)]
        now = [command for command in (Command.PREVIEW, Command.UP) if command in commands]
        yield Row(
            name,
            _without(name, egress),
            f"tpuflex {(now or commands)[0]}",
            FAILED if now else WARNING,
            "gcloud projects add-iam-policy-binding tpuflex-dev --member=MEMBER --role=roles/",
            6 if now else 0,
        )


def reading_rows() -> Iterator[Row]:
    """What only the doctor reads: it stays in the dark, and `up` finds out by itself."""
    for name, check in (
        ("orgpolicy.policy.get", ALL[0].name),
        ("serviceusage.quotas.get", f"quota in {ZONE}"),
        ("tpu.acceleratortypes.get", f"v6e-1 in {ZONE}"),
    ):
        yield Row(name, _without(name), check, UNKNOWN, "", 0)


def policy_rows() -> Iterator[Row]:
    """Every organization policy that is read, in force."""
    lift = "gcloud resource-manager org-policies disable-enforce {} --project=tpuflex-dev"
    for name in ("compute.disableGuestAttributesAccess", "iam.disableServiceAccountCreation"):
        yield _policy(name, True, FAILED, lift.format(name), 6)
    yield _policy("compute.requireShieldedVm", True, FAILED, "secure_boot: true", 6)
    nat, places = "compute.restrictCloudNATUsage", "gcp.resourceLocations"
    show = "gcloud resource-manager org-policies describe {} --effective --project=tpuflex-dev"
    yield _policy(nat, "deny_all", FAILED, "egress: google", 6, egress="internet")
    some: JsonValue = ["projects/tpuflex-dev/regions/us-east5/routers/r"]
    yield _policy(nat, some, WARNING, show.format(nat), 0, egress="internet")
    yield _policy(places, "deny_all", FAILED, show.format(places), 6)
    yield _policy(places, ["in:europe-locations"], WARNING, show.format(places), 0)


def project_rows() -> Iterator[Row]:
    """What the project itself lacks."""
    link = "gcloud billing projects link tpuflex-dev --billing-account=ACCOUNT_ID"
    yield Row("billing", _strict(billing={"enabled": False}), "billing", FAILED, link, 6)
    yield Row("billing, and the Cloud Billing API", _unpaid_unread, "billing", FAILED, link, 6)


def capacity_rows() -> Iterator[Row]:
    """Both pools of quota, in one zone and in all, and what a zone offers."""
    page = "https://console.cloud.google.com/iam-admin/quotas"
    check, other = f"quota in {ZONE}", "us-east5-b"
    for text, pools, standing, code in (
        ("quota of both pools", (0, 0), FAILED, 6),
        ("preemptible quota", (0, 64), WARNING, 0),
        ("on-demand quota", (64, 0), OK, 0),
        ("one chip of eight, in both pools", (7, 7), FAILED, 6),
    ):
        chips = "v6e-8" if pools == (7, 7) else "v6e-1"
        remedy = "" if standing is OK else page
        yield Row(text, _quota(quota(*pools), chips), check, standing, remedy, code)
    lost = {**quota(64, 64), ZONE: {"preemptible": 0, "on_demand": 0}}
    yield Row(
        "quota in one of two zones", _quota(lost, "v6e-1", ZONE, other), check, WARNING, page, 0
    )
    yield Row(
        "accelerator type in the zone",
        lambda doctor: doctor.change("slice", accelerator_type="v5litepod-4"),
        f"v5litepod-4 in {ZONE}",
        FAILED,
        f"accelerator-types list --zone={ZONE}",
        5,
    )
    yield Row(
        "runtime version in the zone",
        lambda doctor: doctor.change("slice", runtime_version="v2-alpha-tpuv6e-2"),
        f"v6e-1 in {ZONE}",
        FAILED,
        "tpuflex:slice.runtime_version",
        5,
    )


def image_rows() -> Iterator[Row]:
    """The serving image: not there, and of a registry that gives out no more."""
    absent: JsonValue = {"absent": [DIGEST]}
    yield Row("image", _strict(registry=absent), "image", FAILED, "tpuflex:serving.image", 4)
    elsewhere = f"{MIRROR}2/vllm/vllm-tpu@{DIGEST}"
    yield Row(
        "repository of the image",
        lambda doctor: doctor.change("serving", image=elsewhere),
        "image",
        FAILED,
        "gcloud artifacts repositories create dockerhub2",
        4,
    )
    yield Row("right to pull the image", _no_reader, "image", UNKNOWN, "registry.reader", 0)
    busy: JsonValue = {"repository_requests_per_minute": 0}
    yield Row(
        "requests to Artifact Registry that are left",
        _strict(registry=busy),
        "image",
        UNKNOWN,
        "again in a minute",
        0,
    )
    hub = f"docker.io/vllm/vllm-tpu@{DIGEST}"
    yield Row("pulls of Docker Hub that are left", _limited(hub), "image", SKIPPED, "", 0)


def weights_rows() -> Iterator[Row]:
    """The weights: none, half of them, those of somebody else, and their source."""
    push = "tpuflex weights push DIRECTORY --stack dev"
    yield Row("weights, and a source", _no_source, "weights", FAILED, push, 7)
    yield Row("a file of the weights", half_pushed, "weights", FAILED, push, 7)
    yield Row("word that the weights are yours", _strange, "weights", WARNING, "--accept-", 7)
    yield Row("pinned weights", _not_pinned, "weights", FAILED, "manifest_sha256", 7)
    yield Row("a whole source", _damaged, "weights", FAILED, "Download it again.", 7)
    yield Row("source of the weights", _misspelt, "weights", FAILED, "hf download", 5)


def state_rows() -> Iterator[Row]:
    """The lock of a state that is kept in a bucket. The engine itself refuses to run beside it."""
    cancel = "pulumi cancel"
    here, dead = socket.gethostname(), "999999999"
    yield Row("lock of the state in a bucket", _locked("elsewhere", "7"), "lock", FAILED, cancel, 8)
    yield Row("lock that a killed run left there", _locked(here, dead), "lock", WARNING, cancel, 8)


def _policy(
    name: str, value: JsonValue, standing: Standing, remedy: str, code: int, egress: str = "google"
) -> Row:
    def take_away(doctor: Doctor) -> None:
        doctor.strict(organization_policies={"constraints": {name: value}})
        doctor.change("network", egress=egress)

    words = {True: "in force", "deny_all": "allows nothing"}
    how = "allows others only" if isinstance(value, list) else words[value]
    return Row(f"{name} {how}", take_away, name, standing, remedy, code)


def _disabled(service: str) -> Callable[[Doctor], None]:
    def take_away(doctor: Doctor) -> None:
        doctor.strict(apis={"enforced": True})
        doctor.call("POST", f"{PROJECT}/services/{service}:disable", {})

    return take_away


def _without(permission: str, egress: str = "google") -> Callable[[Doctor], None]:
    def take_away(doctor: Doctor) -> None:
        doctor.strict(permissions={"missing": [permission]})
        doctor.change("network", egress=egress)

    return take_away


def _no_service_usage(doctor: Doctor) -> None:
    """In the project that quota is taken from: there Service Usage itself is asked for."""
    _disabled("serviceusage.googleapis.com")(doctor)
    doctor.quota_project = "tpuflex-dev"


def _no_reader(doctor: Doctor) -> None:
    missing: JsonValue = ["artifactregistry.repositories.downloadArtifacts"]
    doctor.strict(registry={"token_required": True}, permissions={"missing": missing})


def _unpaid_unread(doctor: Doctor) -> None:
    """`up` never enables that API, so that most projects have it off."""
    doctor.call("POST", f"{PROJECT}/services/cloudbilling.googleapis.com:disable", {})
    doctor.strict(apis={"enforced": True}, billing={"enabled": False})


def _strict(**areas: JsonValue) -> Callable[[Doctor], None]:
    return lambda doctor: doctor.strict(**areas)


def _quota(rule: Any, chips: str, *zones: str) -> Callable[[Doctor], None]:
    def take_away(doctor: Doctor) -> None:
        doctor.capacity(quota=rule)
        doctor.change("slice", accelerator_type=chips, zones=zones or (ZONE,))

    return take_away


def _limited(image: str) -> Callable[[Doctor], None]:
    """An image of a registry that is no project's: its hosts find out, and say so."""

    def take_away(doctor: Doctor) -> None:
        doctor.strict(registry={"anonymous_pulls_per_hour": 0})
        doctor.change("serving", image=image)

    return take_away


def _locked(host: str, pid: str) -> Callable[[Doctor], None]:
    """Somebody works on the stack, from another clone."""

    def take_away(doctor: Doctor) -> None:
        moment = "2026-11-21T12:02:04Z"
        holder = {"pid": int(pid), "username": "jo", "hostname": host, "timestamp": moment}
        doctor.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": "our-states"})
        name = "team/.pulumi/locks/organization/tpuflex/dev/1.json"
        query = f"uploadType=media&name={name.replace('/', '%2F')}"
        doctor.call("POST", f"upload/storage/v1/b/our-states/o?{query}", holder)
        doctor.backend = "gs://our-states/team"
        doctor.engine_says = (
            "error: the stack is currently locked by 1 lock(s). Either wait for the other …\n"
            f"  gs://our-states/{name}: created by jo@{host} (pid {pid}) at {moment}\n"
        )

    return take_away


def _no_source(doctor: Doctor) -> None:
    _weights(doctor, source=None)


def _misspelt(doctor: Doctor) -> None:
    _weights(doctor, source=LocalDirectory("./not-there"))


def _damaged(doctor: Doctor) -> None:
    folder = tiny(doctor.stack.project.root / "damaged")
    (folder / "model.safetensors").write_bytes(b"123456789")
    _weights(doctor, source=LocalDirectory("./damaged"))


def half_pushed(doctor: Doctor) -> None:
    _pushed(doctor, trusted=True)
    _weights(doctor, source=None)
    prefix = weights_prefix(doctor.stack.settings.model).replace("/", "%2F")
    name = f"{prefix}%2Fmodel.safetensors"
    doctor.remove(f"storage/v1/b/{doctor.cloud.bucket}/o/{name}")


def _strange(doctor: Doctor) -> None:
    _pushed(doctor, trusted=False)
    _weights(doctor, source=None)


def _not_pinned(doctor: Doctor) -> None:
    _pushed(doctor, trusted=True)
    _weights(doctor, source=None, manifest_sha256="0" * 64)


def _weights(doctor: Doctor, **values: Any) -> None:
    model = doctor.stack.settings.model
    doctor.change("model", weights=model.weights.model_copy(update=values))


def _pushed(doctor: Doctor, *, trusted: bool) -> None:
    """Put weights into the stack's bucket, as if from here or by somebody else."""
    cloud, model = doctor.cloud, doctor.stack.settings.model
    folder = tiny(doctor.stack.project.root / "pushed")
    doctor.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": cloud.bucket})
    bucket = weights_bucket(cloud.bucket, project="tpuflex-dev", environ=cloud.environ)
    report = bucket.push(
        pushing(folder, weights_prefix(model), name=model.name, revision=model.weights.revision)
    )
    if trusted:
        remember(StackWeights(cloud), report.manifest.sha256)


#: Section of goldens/missing.md -> its rows.
SECTIONS: dict[str, tuple[Row, ...]] = {
    "APIs": tuple(api_rows()),
    "Project": tuple(project_rows()),
    "Pulumi's state": tuple(state_rows()),
    "Permissions": tuple(permission_rows()),
    "Permissions that only the doctor uses": tuple(reading_rows()),
    "Organization policies": tuple(policy_rows()),
    "Accelerators and quota": tuple(capacity_rows()),
    "Image": tuple(image_rows()),
    "Weights": tuple(weights_rows()),
}
