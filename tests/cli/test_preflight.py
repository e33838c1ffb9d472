"""The preflight of commands that make something: it asks before it changes a project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest

from tests.gcp.new_project import NAMES, PROJECT, Project
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.stack import open_stack
from tpuflex.cli.steps.preflight import await_apis, run_preflight
from tpuflex.errors import InterruptedByUser
from tpuflex.project import open_project


def cloud_of(project: Path, apis: Project, kind: str = "google") -> Cloud:
    """The dev stack on a new project of Google's, or of the embedded cloud."""
    stack = open_stack(open_project(project, {}), "dev")
    settings = stack.settings.model_copy(update={"cloud": kind, "project": PROJECT})
    cloud = Cloud(replace(stack, settings=settings), {})
    vars(cloud).update(apis=apis.clients, timing=apis.time.timing())
    return cloud


def test_b2_it_asks_before_it_enables_anything_on_google(
    project: Path, answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is off is named, and a no leaves it off; a yes enables it and waits."""
    apis = Project()
    cloud = cloud_of(project, apis)
    answer("n", "y")

    with pytest.raises(InterruptedByUser, match="you did not agree"):
        run_preflight(Invocation({}), cloud)
    refused = apis.posts()
    run_preflight(Invocation({}), cloud)

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
        run_preflight(Invocation({}), cloud)
    refused = apis.posts()
    run_preflight(Invocation({}, yes=True), cloud)

    assert refused == []
    assert len(apis.posts()) == 1


def test_the_embedded_clouds_projects_are_nobody_elses(project: Path) -> None:
    """On the embedded cloud nothing is asked: the project is on this machine."""
    apis = Project()

    run_preflight(Invocation({}), cloud_of(project, apis, "embedded"))

    assert len(apis.posts()) == 1


def test_a_recovery_waits_for_what_the_killed_run_enabled(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """APIs that settle are waited for and may refuse once more; none is enabled, nobody asked."""
    apis = Project(enabled={**dict.fromkeys(NAMES, 0.0), "tpu.googleapis.com": 990.0})
    cloud = cloud_of(project, apis)

    await_apis(Invocation({}), cloud)

    assert apis.posts() == []
    assert 1050 <= apis.time.now < cloud.settling.until
    assert "Waiting for 1 API to answer" in capsys.readouterr().err
