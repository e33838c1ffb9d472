"""APIs are enabled in one batch, and waited for until each answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_cloud.core.environment import client_environment
from embedded_cloud.server import EmbeddedCloud
from tests.google.new_project import NAMES, PROJECT, Project, refused
from tests.provider.fakes import FakeTime
from tpuflex.components import prerequisites
from tpuflex.errors import (
    AccessError,
    ApiError,
    InterruptedByUser,
    ServiceDisabledError,
)
from tpuflex.google.api_states import ApiState, api_states
from tpuflex.google.apis import apis
from tpuflex.google.bucket_owner import require_own_bucket
from tpuflex.google.enable_apis import await_settled, ensure_apis
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.required_apis import APIS, GoogleApi, endpoint_apis, needed_apis
from tpuflex.google.session import authorized_session
from tpuflex.google.transport import Transport
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.monitoring import MonitoringSettings

BILLING = (
    "Billing account for project '123456789012' is not found. Billing must be enabled for"
    " activation of service(s) 'compute.googleapis.com' to proceed."
)


def test_b2_a_new_project_is_made_ready() -> None:
    """What is off is enabled by one call, and each API is asked until it answers."""
    project = Project(operation_for=7.0)

    changed, said = project.ensure()

    assert changed
    assert project.posts() == [f"/v1/projects/{PROJECT}/services:batchEnable"]
    assert set(project.enabled) == NAMES
    assert 1060 <= project.time.now <= 1080
    assert project.agreed == [
        *("artifactregistry", "cloudresourcemanager", "compute", "dns", "iam", "iap"),
        *("secretmanager", "tpu"),
    ]
    assert said[0] == "Enabling 8 APIs in project new-project …"
    assert said[1] == (
        "Waiting for 6 APIs to answer, as it takes a few minutes after they were enabled:"
        " cloudresourcemanager, compute, dns, iam, secretmanager, tpu."
    )
    assert said[2].startswith("  answers  cloudresourcemanager, compute, dns, iam, secretmanager,")
    assert all(state in (ApiState.ANSWERS, ApiState.ENABLED) for state in states(project).values())


@pytest.mark.parametrize("exports", [True, False])
def test_hosts_that_write_no_metrics_need_no_monitoring(*, exports: bool) -> None:
    """Where others enable the APIs, nobody is asked for one without a use."""
    stack = Path(__file__).parents[2] / "stacks" / "Pulumi.first-proof.yaml"
    settings = load_stack_file(stack, deploying=False).settings.model_copy(
        update={
            "manage_apis": False,
            "monitoring": MonitoringSettings(export_metrics=exports),
        }
    )

    assert ("monitoring" in {api.name for api in needed_apis(settings)}) is exports


def test_b2_a_ready_project_is_left_alone_in_silence() -> None:
    """Where all APIs answer, nothing is enabled, waited for or said."""
    project = Project(enabled=dict.fromkeys(NAMES, 0.0))

    assert project.ensure() == (False, [])

    assert project.posts() == []
    assert project.time.pauses == []


def test_b2_apis_that_somebody_enabled_a_moment_ago_are_waited_for() -> None:
    """A run that was interrupted after enabling leaves APIs that are ENABLED and refuse."""
    project = Project(enabled={**dict.fromkeys(NAMES, 0.0), "tpu.googleapis.com": 990.0})

    changed, said = project.ensure()

    assert changed
    assert project.posts() == []
    assert said[0].startswith("Waiting for 1 API to answer")
    assert project.time.now >= 1050


def test_b2_the_wait_has_an_end() -> None:
    """An API that does not answer for five minutes ends the preflight, by name."""
    project = Project(answers_after=3600.0)

    with pytest.raises(
        ServiceDisabledError, match=r"within 5 minutes .*: cloudresource.*, tpu"
    ) as e:
        project.ensure()

    assert 1300 <= project.time.now <= 1320
    assert "has not been used in project 123456789012" in e.value.message
    assert "gcloud services list --enabled --project=new-project" in str(e.value.hint)


def test_service_usage_is_not_off_where_it_answers() -> None:
    """Service Usage that lists the others is not counted as off, whether it lists itself or not."""
    listed = frozenset({"serviceusage.googleapis.com", "tpu.googleapis.com"})
    project = Project(enabled=dict.fromkeys(NAMES, 0.0), unlisted=listed)

    project.ensure()

    assert project.agreed == ["tpu"]


def test_b2_nothing_is_enabled_without_consent() -> None:
    """Enabling an API changes a project that others may use: a refusal comes first, and ends it."""

    def disagree(_missing: object) -> None:
        raise InterruptedByUser("no")

    project = Project()

    with pytest.raises(InterruptedByUser):
        project.ensure(agree=disagree)

    assert project.posts() == []


def test_b3_service_usage_and_resource_manager_are_among_them() -> None:
    """Pulumi-gcp and our own inventory call Resource Manager, and Service Usage enables."""
    assert {"cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com"} <= NAMES
    assert endpoint_apis(reads_keys=False) == APIS
    assert vars(prerequisites)["endpoint_apis"] is endpoint_apis


def test_b3_service_usage_off_says_how_to_turn_it_on() -> None:
    """Without Service Usage nothing can be enabled by API: gcloud can."""
    project = Project(enabled={})

    with pytest.raises(ServiceDisabledError, match="Service Usage, which enables") as error:
        project.ensure()

    assert error.value.exit_code == 6
    assert str(error.value.hint).startswith(
        "Run: gcloud services enable serviceusage.googleapis.com"
        " cloudresourcemanager.googleapis.com --project=new-project\n"
    )


@pytest.mark.parametrize("where", ["answer", "operation"])
def test_b2_no_billing_names_the_command_that_mends_it(where: str) -> None:
    """A project without billing cannot enable Compute Engine: exit code 6, and the command."""
    if where == "answer":
        error = {"code": 400, "message": BILLING, "status": "FAILED_PRECONDITION"}
        project = Project(refusal=refused(400, error))
    else:
        project = Project(failure={"code": 9, "message": BILLING})

    with pytest.raises(AccessError, match="Billing must be enabled") as found:
        project.ensure()

    assert found.value.exit_code == 6
    assert "gcloud billing projects link new-project --billing-account=" in str(found.value.hint)


def test_b2_no_permission_to_enable_says_who_must_do_what() -> None:
    """Who may not enable APIs is told the role, and the command for somebody who has it."""
    message = "Permission denied to enable service [compute.googleapis.com]\nHelp Token: Ab"
    error = {"code": 403, "message": message, "status": "PERMISSION_DENIED"}
    project = Project(refusal=refused(403, error))

    with pytest.raises(AccessError, match="8 APIs cannot be enabled in project") as found:
        project.ensure()

    assert found.value.exit_code == 6
    assert "roles/serviceusage.serviceUsageAdmin has to run: gcloud services enable" in (
        str(found.value.hint)
    )


def test_b2_another_refusal_passes_with_googles_words() -> None:
    """Any other refusal of Service Usage is shown as Google says it."""
    project = Project(failure={"code": 13, "message": "Internal error encountered."})

    with pytest.raises(ApiError, match="Internal error encountered"):
        project.ensure()


def test_b2_who_may_not_list_services_sees_which_refuse() -> None:
    """Without permission to list services, only what says SERVICE_DISABLED is enabled."""
    project = Project(
        unreadable=AccessError("Permission denied to list services"),
        enabled={**dict.fromkeys(NAMES, 0.0)},
    )
    assert project.ensure() == (False, [])

    del project.enabled["tpu.googleapis.com"]
    changed, said = project.ensure()

    assert changed
    assert said[0] == "Enabling 1 API in project new-project …"


def test_settling_apis_are_waited_for_and_none_is_enabled() -> None:
    """After a kill: an API that is enabled and refuses is waited for; one that is off is not, nor
    is any where it cannot be read which are enabled."""
    enabled = {**dict.fromkeys(NAMES - {"dns.googleapis.com"}, 0.0), "tpu.googleapis.com": 990.0}
    project, unreadable = (
        Project(enabled=enabled),
        Project(enabled=enabled, unreadable=AccessError("Permission denied to list services")),
    )
    said: list[str] = []

    def waited(project: Project) -> bool:
        return await_settled(project.clients(), PROJECT, project.time.timing(), said.append)

    assert waited(project)
    assert not waited(unreadable)

    assert 1050 <= project.time.now <= 1060
    assert unreadable.time.pauses == []
    assert said[0] == (
        "Waiting for 1 API to answer, as it takes a few minutes after they were enabled: tpu."
    )
    assert project.posts() == unreadable.posts() == []
    assert not waited(project)


def states(project: Project) -> dict[str, ApiState]:
    found = api_states(project.clients(), PROJECT)
    return {api.name: state for api, state in found.items()}


def test_the_states_of_apis_are_read_without_changing_them() -> None:
    """The doctor's half: enabled and answering, enabled only, settling, off; no POST."""
    project = Project(enabled={**dict.fromkeys(NAMES, 0.0), "tpu.googleapis.com": 990.0})
    del project.enabled["dns.googleapis.com"]

    found = states(project)

    assert found["compute"] is ApiState.ANSWERS
    assert found["iap"] is ApiState.ENABLED
    assert found["tpu"] is ApiState.SETTLING
    assert found["dns"] is ApiState.DISABLED
    assert project.posts() == []


def test_what_may_not_be_read_is_unknown() -> None:
    """Without permission to list services, an API without a question is unknown, never off."""
    project = Project(
        unreadable=AccessError("no"), enabled={**dict.fromkeys(NAMES - {"dns.googleapis.com"}, 0.0)}
    )

    found = states(project)

    assert found["iap"] is ApiState.UNKNOWN
    assert found["compute"] is ApiState.ANSWERS
    assert found["dns"] is ApiState.DISABLED


def test_the_embedded_cloud_answers_every_question(tmp_path: Path) -> None:
    """Each question is a method that the embedded cloud, and so Google's document, has."""
    with EmbeddedCloud(tmp_path) as cloud:
        environ = client_environment(base_url=cloud.url, state_dir=tmp_path, project=PROJECT)
        endpoints = Endpoints.from_environ(environ)
        session = authorized_session(endpoints, environ)
        timing = FakeTime().timing()
        clients = apis(endpoints, lambda url: Transport(session, url, timing))
        before = api_states(clients, PROJECT)
        said: list[str] = []
        agreed: list[GoogleApi] = []

        assert ensure_apis(clients, PROJECT, timing, said.append, agreed.extend)
        assert not ensure_apis(clients, PROJECT, timing, said.append, agreed.extend)

        assert before[APIS[0]] is ApiState.DISABLED
        assert len(said) == 1
        assert APIS[0] in agreed
        after = api_states(clients, PROJECT)
        assert {after[api] for api in APIS if api.question} == {ApiState.ANSWERS}


def test_b2_a_storage_api_that_is_off_says_nothing_of_the_bucket() -> None:
    """SERVICE_DISABLED is no sign that somebody else has the bucket's name."""
    project = Project(enabled={})

    with pytest.raises(ServiceDisabledError):
        require_own_bucket(project.clients().storage, "b", PROJECT, lambda: "1", lambda: True)
