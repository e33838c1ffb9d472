"""`tpuflex doctor` on an embedded cloud that lacks one thing at a time, and `up`'s part of it.

Without an engine: what `up` asks for is asked for directly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import requests

from embedded_cloud.json_types import JsonObject, JsonValue
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.tpu.capacity import Capacity
from tests.embedded_cloud.api import TOKEN
from tests.loopback import overrides
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.stack import OpenStack, open_stack
from tpuflex.cli.steps.doctor_cloud import cloud_examinations, credential_examination
from tpuflex.cli.steps.ready import require_ready
from tpuflex.errors import TpuflexError
from tpuflex.gcp.required_apis import APIS, GoogleApi
from tpuflex.operate.doctor.check import Check, Standing
from tpuflex.operate.doctor.side_by_side import DECISIVE, examine_all
from tpuflex.project import open_project

DIGEST = f"sha256:{'1' * 64}"
PROJECT = "v1/projects/tpuflex-dev"
MIRROR = "us-east5-docker.pkg.dev/tpuflex-dev/dockerhub"


@dataclass
class Doctor:
    """An embedded cloud, and the dev stack on it with some settings changed."""

    running: EmbeddedCloud
    stack: OpenStack
    url: str
    token: str = TOKEN

    def change(self, section: str, **values: Any) -> None:
        """Change settings of a section of the stack file."""
        settings = self.stack.settings
        changed = getattr(settings, section).model_copy(update=values)
        self.stack = replace(self.stack, settings=settings.model_copy(update={section: changed}))

    def strict(self, **areas: JsonValue) -> None:
        """Put areas of strictness in force."""
        self.call("POST", "_emulator/strictness", areas)

    def capacity(self, **rule: Any) -> None:
        """Put a capacity rule in force."""
        self.running.cloud.capacity.set(Capacity.from_json(rule))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A call on the cloud, which must succeed."""
        answer = requests.request(
            method,
            f"{self.url}/{path}",
            json=body,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30,
        )
        assert answer.ok, answer.text
        return answer.json()

    @property
    def cloud(self) -> Cloud:
        """The cloud as a command has it."""
        environ = {
            **overrides(self.url),
            "STORAGE_EMULATOR_HOST": self.url,
            "GOOGLE_OAUTH_ACCESS_TOKEN": self.token,
        }
        return Cloud(self.stack, environ)

    def checks(self) -> dict[str, Check]:
        """All checks of the cloud, by name."""
        found = chain(*examine_all(cloud_examinations(self.cloud)))
        return {check.name: check for check in found}


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """The dev stack with an image in the project's registry, on a cloud where all is well."""
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN) as running:
        found = Doctor(running, open_stack(open_project(project, {}), "dev"), running.url)
        found.change("serving", image=f"{MIRROR}/vllm/vllm-tpu@{DIGEST}")
        services: list[JsonValue] = [api.service for api in APIS]
        found.call("POST", f"{PROJECT}/services:batchEnable", {"serviceIds": services})
        found.call(
            "POST",
            f"{PROJECT}/locations/us-east5/repositories?repositoryId=dockerhub",
            {"format": "DOCKER"},
        )
        yield found


def test_all_is_well(doctor: Doctor) -> None:
    """Nothing fails and nothing is unknown; every examination of `up` has looked at something."""
    found = doctor.checks()

    assert {check.standing for check in found.values()} == {Standing.OK, Standing.SKIPPED}
    assert found["image"].text == f"{MIRROR}/vllm/vllm-tpu"
    asked = {each.name for each in cloud_examinations(doctor.cloud) if each.decisive}
    assert asked == set(DECISIVE)
    require_ready(doctor.cloud)


def quota(preemptible: int, on_demand: int) -> JsonObject:
    return {"*": {"preemptible": preemptible, "on_demand": on_demand}}


@dataclass(frozen=True)
class Lack:
    """One thing that is missing.

    Attributes:
        check: the check that says so.
        code: exit code of the failure.
        remedy: words of the remedy.
        areas: strictness that makes it missing.
        capacity: the capacity rule that does.
        settings: the settings that do, by section.
    """

    check: str
    code: int
    remedy: str
    areas: JsonObject = field(default_factory=dict)
    capacity: JsonObject = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


def forbidden(constraint: str, remedy: str, value: JsonValue = True, **settings: Any) -> Lack:
    """An organisation policy that forbids the endpoint."""
    areas: JsonObject = {"organization_policies": {"constraints": {constraint: value}}}
    return Lack(constraint, 6, remedy, areas, settings=settings)


MISSING = {
    "billing": Lack(
        "billing", 6, "gcloud billing projects link tpuflex-dev", {"billing": {"enabled": False}}
    ),
    "guest attributes": forbidden(
        "compute.disableGuestAttributesAccess",
        "disable-enforce compute.disableGuestAttributesAccess --project=tpuflex-dev",
    ),
    "shielded VM": forbidden("compute.requireShieldedVm", "secure_boot: true"),
    "service accounts": forbidden(
        "iam.disableServiceAccountCreation", "disable-enforce iam.disableServiceAccountCreation"
    ),
    "NAT": forbidden(
        "compute.restrictCloudNATUsage",
        "egress: google",
        "deny_all",
        network={"egress": "internet"},
    ),
    "permission": Lack(
        "tpuflex up",
        6,
        "--role=roles/tpu.admin",
        {"permissions": {"missing": ["tpu.nodes.create"]}},
    ),
    "quota": Lack(
        "quota in us-east5-a",
        6,
        "https://console.cloud.google.com/iam-admin/quotas",
        capacity={"quota": quota(0, 0)},
    ),
    "accelerator": Lack(
        "v5litepod-4 in us-east5-a",
        5,
        "accelerator-types list --zone=us-east5-a",
        settings={"slice": {"accelerator_type": "v5litepod-4"}},
    ),
    "runtime": Lack(
        "v6e-1 in us-east5-a",
        5,
        "tpuflex:slice.runtime_version",
        settings={"slice": {"runtime_version": "v2-alpha-tpuv7"}},
    ),
    "image": Lack("image", 4, "tpuflex:serving.image", {"registry": {"absent": [DIGEST]}}),
    "repository": Lack(
        "image",
        4,
        "gcloud artifacts repositories create dockerhub2",
        settings={"serving": {"image": f"{MIRROR}2/vllm/vllm-tpu@{DIGEST}"}},
    ),
}


@pytest.mark.parametrize("lacking", MISSING)
def test_one_thing_is_missing(doctor: Doctor, lacking: str) -> None:
    """The doctor names what is missing with its remedy, nothing else fails, and `up` refuses with
    the same words and the exit code of its kind."""
    lack = MISSING[lacking]
    doctor.strict(**lack.areas)
    doctor.capacity(**lack.capacity)
    for section, values in lack.settings.items():
        doctor.change(section, **values)

    failed = [check for check in doctor.checks().values() if check.standing is Standing.FAILED]
    assert [check.name for check in failed] == [lack.check]
    assert lack.remedy in failed[0].remedy

    with pytest.raises(TpuflexError) as refused:
        require_ready(doctor.cloud)
    assert refused.value.exit_code == lack.code
    assert failed[0].text in refused.value.message
    assert lack.remedy in str(refused.value)
    assert "`tpuflex up --skip-check" in refused.value.hint


@pytest.mark.parametrize("api", [api for api in APIS if api.name != "serviceusage"])
def test_one_api_is_not_enabled(doctor: Doctor, api: GoogleApi) -> None:
    """B2, B3: an API that is off is named with the command that enables it. That is no failure:
    `up` enables it first."""
    doctor.strict(apis={"enforced": True})
    doctor.call("POST", f"{PROJECT}/services/{api.service}:disable", {})

    found = doctor.checks()

    assert found[api.service].standing is Standing.WARNING
    assert (
        found[api.service].remedy == f"gcloud services enable {api.service} --project=tpuflex-dev"
    )
    others = [each for each in APIS if each != api]
    assert {found[each.service].standing for each in others} == {Standing.OK}
    require_ready(doctor.cloud)


def test_an_api_that_was_enabled_a_moment_ago(doctor: Doctor) -> None:
    """B2: an API that is enabled and does not answer yet is a warning of its own."""
    doctor.strict(apis={"enforced": True, "answers_after_s": 60})
    doctor.call("POST", f"{PROJECT}/services/tpu.googleapis.com:disable", {})
    doctor.call("POST", f"{PROJECT}/services/tpu.googleapis.com:enable", {})

    found = doctor.checks()["tpu.googleapis.com"]

    assert (found.standing, found.text) == (Standing.WARNING, "enabled, and does not answer yet")


def test_a_check_that_the_user_goes_on_without(doctor: Doctor) -> None:
    """What is skipped by name does not refuse; another failure still does."""
    doctor.strict(billing={"enabled": False})
    require_ready(doctor.cloud, ["billing"])
    doctor.capacity(quota=quota(0, 0))

    with pytest.raises(TpuflexError, match="quota") as refused:
        require_ready(doctor.cloud, ["billing"])
    assert "--skip-check quota" in refused.value.hint
    with pytest.raises(TpuflexError, match="billing") as refused:
        require_ready(doctor.cloud)
    assert "--skip-check billing --skip-check quota" in refused.value.hint


def test_what_may_not_be_read_is_unknown(doctor: Doctor) -> None:
    """Rights that only the doctor needs, missing, leave it in the dark; they fail nothing."""
    names: list[JsonValue] = ["orgpolicy.policy.get", "serviceusage.quotas.get"]
    doctor.strict(permissions={"missing": names})

    found = doctor.checks()

    assert found["quota in us-east5-a"].standing is Standing.UNKNOWN
    assert found["gcp.resourceLocations"].standing is Standing.UNKNOWN
    assert not [check for check in found.values() if check.standing is Standing.FAILED]
    require_ready(doctor.cloud)


def test_one_pool_is_enough(doctor: Doctor) -> None:
    """Which pool Flex-start draws from is reported both ways: one that is enough is a warning."""
    doctor.capacity(quota=quota(0, 64))

    found = doctor.checks()["quota in us-east5-a"]

    assert found.standing is Standing.WARNING
    assert found.text.startswith("1 wanted; preemptible 0, on-demand 64")
    require_ready(doctor.cloud)


def test_missing_weights(doctor: Doctor) -> None:
    """Weights that nobody can push fail; those with a source are pushed by `up`."""
    assert doctor.checks()["weights"].standing is Standing.OK
    weights = doctor.stack.settings.model.weights.model_copy(update={"source": None})
    doctor.change("model", weights=weights)

    found = doctor.checks()["weights"]

    assert (found.standing, found.kind.exit_code) == (Standing.FAILED, 7)
    assert found.remedy == "tpuflex weights push DIRECTORY --stack dev"


def test_a_new_project_with_every_api_off(doctor: Doctor) -> None:
    """B2: what cannot be read because an API is off is unknown with the command that enables it,
    and does not keep `up` from enabling it."""
    doctor.stack = replace(
        doctor.stack, settings=doctor.stack.settings.model_copy(update={"project": "brand-new"})
    )
    doctor.strict(apis={"enforced": True, "bare_projects": True})

    found = doctor.checks()

    assert not [check for check in found.values() if check.standing is Standing.FAILED]
    assert found["v6e-1 in us-east5-a"].to_json() == {
        "group": "Accelerators and quota",
        "name": "v6e-1 in us-east5-a",
        "standing": "unknown",
        "text": "tpu.googleapis.com is not enabled in brand-new, or not yet",
        "remedy": "gcloud services enable tpu.googleapis.com --project=brand-new",
    }
    assert found["project"].standing is Standing.UNKNOWN
    require_ready(doctor.cloud)


def test_a_token_that_is_refused(doctor: Doctor) -> None:
    """A token that was good once fails as a credential, and no API is taken to answer."""
    doctor.token = f"{TOKEN}.old"

    ((credential,),) = examine_all([credential_examination(doctor.cloud)])

    assert (credential.standing, credential.kind.exit_code) == (Standing.FAILED, 6)
    assert "emulator env" in credential.remedy
    found = doctor.checks()
    assert {found[api.service].standing for api in APIS} == {Standing.UNKNOWN}
    assert not [check for check in found.values() if check.standing is Standing.FAILED]


def test_the_credential(doctor: Doctor) -> None:
    """The embedded cloud's own token is named as what it is."""
    ((credential,),) = examine_all([credential_examination(doctor.cloud)])

    assert (credential.standing, credential.text) == (
        Standing.OK,
        "the embedded cloud's own token",
    )


def test_every_unwell_check_has_a_remedy(doctor: Doctor) -> None:
    """Whatever is not well says what to do about it."""
    doctor.strict(
        billing={"enabled": False}, apis={"enforced": True}, registry={"absent": [DIGEST]}
    )
    for name in ("tpu", "cloudresourcemanager", "iap"):
        doctor.call("POST", f"{PROJECT}/services/{name}.googleapis.com:disable", {})
    unwell = [
        check
        for check in doctor.checks().values()
        if check.standing not in (Standing.OK, Standing.SKIPPED)
    ]
    assert len(unwell) > 8
    assert [check.name for check in unwell if not check.remedy] == []


def test_a_cloud_that_does_not_answer(doctor: Doctor) -> None:
    """A cloud that is gone leaves everything unknown at once, and `up` goes on to say so itself."""
    doctor.url = "http://127.0.0.1:9"  # the port `discard`, where nobody listens

    found = doctor.checks()

    assert {check.standing for check in found.values()} <= {
        Standing.OK,
        Standing.UNKNOWN,
        Standing.SKIPPED,
    }
    assert found["billing"].standing is Standing.UNKNOWN
    require_ready(doctor.cloud)
