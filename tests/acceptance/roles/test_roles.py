"""A sample of figure 12: commands run as a service account, with what they need and with less."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reliability.cases import Case
from reliability.role_rig import RoleRig
from reliability.roles import SITUATIONS, judge
from tpuflex.roles.roles import Command, roles

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoleRig]:
    """The dev stack on a cloud that enforces IAM."""
    with RoleRig(tmp_path_factory.mktemp("roles") / "project", speed=20) as rig:
        yield rig


def test_the_roles_of_the_identities_are_enough(rig: RoleRig) -> None:
    """What the deploy identity has brings the stack up and takes it down; the preview identity,
    which cannot, previews and sweeps meanwhile. Nothing is left."""
    found = roles()
    preview = found.permissions_of("tpuflexPreview")
    deploy = [name for id_ in found.identities["deploy"] for name in found.permissions_of(id_)]
    rig.reset()
    rig.enforce()
    for held, words, code in (
        (preview, ("preview",), 0),
        (preview, ("up",), 6),
        (deploy, ("up",), 0),
        (preview, ("preview", "--refresh", "--exit-code"), 0),
        (preview, ("sweep",), 0),
        (preview, ("down",), 6),
        (deploy, ("down",), 0),
    ):
        rig.grant(held)
        assert rig.as_account(*words).exit_code == code, rig.said[-1].stderr
    assert rig.left() == []


@pytest.mark.parametrize(
    ("situation", "missing"),
    [
        # From the provider, from the gcp plugin (in words that do not name it), from a client.
        ("preview --refresh", "storage.buckets.getIamPolicy"),
        ("up", "iam.serviceAccounts.actAs"),
        ("up", "resourcemanager.projects.setIamPolicy"),
        ("up with alert policies", "monitoring.alertPolicies.create"),
        ("down with alert policies", "monitoring.dashboards.list"),
        ("down", "tpu.nodes.delete"),
        # What was not compared, and what was not looked for.
        ("down", "iam.serviceAccounts.get"),
        ("recover --take-over of a lost state", "compute.networks.get"),
        ("status", "tpu.nodes.get"),
        ("doctor", "serviceusage.quotas.get"),
        ("zones", "tpu.acceleratortypes.get"),
        ("zones", "tpu.nodes.list"),
        ("secrets put of a stack that is up", "secretmanager.versions.add"),
        ("sweep", "tpu.nodes.list"),
        ("weights rm", ""),
        ("weights rm", "storage.objects.delete"),
        ("weights rm", "tpu.nodes.list"),
        ("library up", "storage.buckets.create"),
        ("library status", "storage.buckets.getIamPolicy"),
        ("library down", "storage.buckets.delete"),
        ("sweep --yes of a lost state", "tpu.nodes.list"),
        ("sweep --yes of a lost state", "storage.buckets.delete"),
    ],
)
def test_what_is_missing_is_named(rig: RoleRig, situation: str, missing: str) -> None:
    """AccessError that names the permission, or a line of what is shown; the owner's `down` leaves
    nothing."""
    case = Case(f"{situation} without {missing}", {"situation": situation, "missing": missing})
    assert judge(rig, case).problems == []


def test_what_recover_may_not_look_at_is_told(rig: RoleRig) -> None:
    """A resource of the state that may not be looked at stays as it is; the warning names what is
    missing."""
    name, missing = "recover of a killed up", "compute.networks.get"
    case = Case(f"{name} without {missing}", {"situation": name, "missing": missing})
    assert judge(rig, case).problems == []


def test_each_command_of_the_figure_is_one_of_the_file() -> None:
    """Every command that has rows of its own is run by the figure, but those for gcloud, and those
    that want a server to start again."""
    run = {situation.command for situation in SITUATIONS.values()}
    assert {*Command} - run == {Command.ASK, Command.WAY_IN, Command.RESTART}
