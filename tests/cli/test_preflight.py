"""The preflight of commands that make something: it asks before it changes a project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.cli.typing import Captured
from tests.google.new_project import NAMES, PROJECT, Project, refused
from tests.reports import asked
from tests.unit.stack_sections import TPU_DIGEST, sections
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.apis import await_apis, require_apis
from tpuflex.errors import InterruptedByUser, ServiceDisabledError
from tpuflex.google.required_apis import APIS, LIBRARY_APIS, needed_apis
from tpuflex.project import open_project
from tpuflex.settings.load import parse
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import read_stack


def cloud_of(project: Path, apis: Project, kind: str = "google", **settings_: object) -> Connection:
    """The dev stack on a new project of Google's, or of the embedded cloud."""
    stack = read_stack(open_project(project, {}), "dev")
    update = {"cloud": kind, "project": PROJECT, **settings_}
    settings = stack.settings.model_copy(update=update)
    cloud = Connection(replace(stack, settings=settings), {})
    vars(cloud).update(apis=apis.clients, timing=apis.time.timing())
    return cloud


def test_b2_it_asks_before_it_enables_anything_on_google(
    project: Path, answer: Callable[..., None], capsys: Captured
) -> None:
    """What is off is named, and a no leaves it off; a yes enables it and waits."""
    apis = Project()
    cloud = cloud_of(project, apis)
    answer("n", "y")

    with pytest.raises(InterruptedByUser, match="you did not agree"):
        require_apis(cloud, *asked(Invocation({})))
    refused = apis.posts()
    require_apis(cloud, *asked(Invocation({})))

    assert refused == []
    assert apis.posts() == [f"/v1/projects/{PROJECT}/services:batchEnable"]
    assert cloud.settling.until > apis.time.now
    said = capsys.readouterr().err
    assert "and that are off in new-project: artifactregistry, cloudresourcemanager" in said
    assert "Enable them? They stay enabled" in said


def test_b2_where_nobody_can_be_asked_yes_is_needed(project: Path) -> None:
    """Without a terminal nothing is enabled unless --yes was given."""
    apis = Project()
    cloud = cloud_of(project, apis)

    with pytest.raises(click.UsageError, match="add --yes"):
        require_apis(cloud, *asked(Invocation({})))
    refused = apis.posts()
    require_apis(cloud, *asked(Invocation({}, yes=True)))

    assert refused == []
    assert len(apis.posts()) == 1


def test_the_embedded_clouds_projects_are_nobody_elses(project: Path) -> None:
    """On the embedded cloud nothing is asked: the project is on this machine."""
    apis = Project()

    require_apis(cloud_of(project, apis, "embedded"), *asked(Invocation({})))

    assert len(apis.posts()) == 1


def test_a_recovery_waits_for_what_the_killed_run_enabled(project: Path, capsys: Captured) -> None:
    """APIs that settle are waited for and may refuse once more; none is enabled, nobody asked."""
    apis = Project(enabled={**dict.fromkeys(NAMES, 0.0), "tpu.googleapis.com": 990.0})
    cloud = cloud_of(project, apis)

    await_apis(cloud, print)

    assert apis.posts() == []
    assert 1050 <= apis.time.now < cloud.settling.until
    assert "Waiting for 1 API to answer" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["google", "embedded"])
@pytest.mark.parametrize("listed", [True, False])
def test_where_others_enable_apis_it_refuses_before_anything_is_made(
    project: Path, kind: str, listed: bool
) -> None:
    """All that are off are named at once with the one command; --yes changes nothing of it. Whoever
    may not read what is enabled sees it by their answers, but for those that only hosts ask."""
    off = ("compute.googleapis.com", "iap.googleapis.com", "tpu.googleapis.com")
    apis = Project(
        enabled={name: 0.0 for name in NAMES if name not in off},
        unreadable=None if listed else refused(403, {"code": 403, "status": "PERMISSION_DENIED"}),
    )
    cloud = cloud_of(project, apis, kind, manage_apis=False)

    with pytest.raises(ServiceDisabledError) as caught:
        require_apis(cloud, *asked(Invocation({}, yes=True)))

    named, seen = ("compute, iap, tpu", off) if listed else ("compute, tpu", (off[0], off[2]))
    assert str(caught.value) == (
        f"APIs that are needed are off in new-project: {named}; and tpuflex:manage_apis is false,"
        " so none is enabled. Nothing was made.\n"
        f"Run: gcloud services enable {' '.join(seen)} --project=new-project"
    )
    assert caught.value.exit_code == 6
    assert apis.posts() == []


def test_where_others_enable_apis_what_they_enabled_a_moment_ago_is_waited_for(
    project: Path,
) -> None:
    """An API that is enabled and does not answer yet is no refusal, and one that the stack has no
    use for may be off."""
    idle = {"dns.googleapis.com", "artifactregistry.googleapis.com"}
    enabled = {name: 0.0 for name in NAMES if name not in idle}
    apis = Project(enabled={**enabled, "tpu.googleapis.com": 990.0})
    cloud = cloud_of(project, apis, manage_apis=False)
    network = cloud.stack.settings.network.model_copy(update={"egress": "existing"})
    settings = cloud.stack.settings.model_copy(update={"network": network})
    vars(cloud)["stack"] = replace(cloud.stack, settings=settings)

    require_apis(cloud, *asked(Invocation({})))

    assert apis.posts() == []
    assert cloud.settling.until > apis.time.now


def test_the_apis_that_a_stack_needs() -> None:
    """Where others enable them: Cloud DNS for its private zones, Artifact Registry for an image of
    its own project. A stack that enables them enables all."""

    def needed(**changes: object) -> set[str]:
        given = {key.replace("__", "."): value for key, value in changes.items()}
        return {api.name for api in needed_apis(parse(sections(given), "test"))}

    every = {api.name for api in APIS}
    hub = {"serving__image": f"vllm/vllm-tpu@{TPU_DIGEST}"}
    nat = {"network__egress": "internet"}
    assert needed() == needed(**hub, **nat) == needed(manage_apis=False) == every
    assert needed(manage_apis=False, **nat) == every - {"dns"}
    assert needed(manage_apis=False, **hub, **nat) == every - {"dns", "artifactregistry"}


def test_a_library_has_no_apis_enabled_for_it_either(project: Path) -> None:
    """`tpuflex library up` takes the setting from the stack that it is called with."""
    apis = Project(enabled={})
    apis.enabled["serviceusage.googleapis.com"] = 0.0

    with pytest.raises(
        ServiceDisabledError, match="cloudresourcemanager, secretmanager, storage; and"
    ):
        require_apis(
            cloud_of(project, apis, manage_apis=False), *asked(Invocation({})), apis=LIBRARY_APIS
        )
