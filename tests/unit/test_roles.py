"""The rows of roles.yaml, and the roles that follow from them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from embedded_cloud.strict.permission_table import needs_of
from tpuflex.inventory.kinds import IMAGES_ROLE, METRICS_ROLE, PROJECT_ROLES
from tpuflex.roles.roles import Command, Roles, When, roles

#: Verbs of permissions that read.
READS = {"get", "list", "getIamPolicy", "downloadArtifacts"}


def test_each_row_names_methods_that_ask_for_its_permission() -> None:
    """A row whose methods ask for something else is wrong, or says that it is unproved."""
    wrong = {
        (need.permission, method)
        for need in roles().permissions
        for method in need.methods
        if not need.unproved and need.permission not in (needs_of(method) or ())
    }
    assert wrong == {
        # A registry is no API of Google's discovery documents.
        ("artifactregistry.repositories.downloadArtifacts", "registry.manifests.get")
    }


def test_no_row_is_written_twice() -> None:
    """A permission has one row per kind of stack."""
    rows = [(need.permission, need.when) for need in roles().permissions]
    assert len(rows) == len({*rows})


def test_the_preview_role_reads_only() -> None:
    """Not one of its permissions changes anything, gives a secret's value, or passes as another."""
    held = roles().permissions_of("tpuflexPreview")
    assert {name.rpartition(".")[2] for name in held} <= READS
    assert "secretmanager.versions.access" not in held


def test_the_deploy_identity_may_do_what_each_command_needs() -> None:
    """Its roles together hold all of it, on any stack; the project's policy by the condition."""
    found = roles()
    held = {name for id_ in found.identities["deploy"] for name in found.permissions_of(id_)}
    commands = [*{*Command} - {Command.ASK, Command.WAY_IN}]
    assert found.permissions_for(*commands) <= held
    assert "resourcemanager.projects.setIamPolicy" not in found.permissions_of("tpuflexDeploy")
    assert found.permissions_of("tpuflexHostGrants") == ("resourcemanager.projects.setIamPolicy",)


def test_the_condition_names_the_roles_that_hosts_get() -> None:
    """The components grant exactly these on the project."""
    role = roles().roles["tpuflexHostGrants"]
    granted = (PROJECT_ROLES, METRICS_ROLE, IMAGES_ROLE)
    assert {*role.grants_only} == {name for roles in granted for name in roles.values()}
    assert role.condition is not None
    assert role.condition["expression"].endswith(
        ".hasOnly(['roles/logging.logWriter', 'roles/monitoring.metricWriter',"
        " 'roles/artifactregistry.reader'])"
    )
    assert roles().roles["tpuflexDeploy"].condition is None


@pytest.mark.parametrize("when", [When.PRIVATE, When.NAT])
def test_a_command_needs_what_its_stack_needs(when: When) -> None:
    """NAT needs routers, private zones need DNS, and neither needs the other's."""
    needed = roles().needed(Command.UP, [when])
    assert ("dns.managedZones.create" in needed) == (when is When.PRIVATE)
    assert ("compute.routers.create" in needed) == (when is When.NAT)


def test_an_identity_cannot_name_a_role_that_is_not_there() -> None:
    """A mistake in the file is found when it is read."""
    document = roles().model_dump(by_alias=True, mode="json")
    with pytest.raises(ValidationError, match=r"roles that are not there: \['none'\]"):
        Roles.model_validate({**document, "identities": {"x": ["none"]}})


@pytest.mark.parametrize(
    ("permission", "stacks", "needed"),
    [
        ("compute.networks.create", (), True),
        ("compute.networks.create", (When.EXISTING_NETWORK,), False),
        ("compute.subnetworks.create", (When.EXISTING_NETWORK,), False),
        ("compute.firewalls.create", (When.EXISTING_NETWORK,), True),
        ("compute.firewalls.create", (When.EXISTING_NETWORK, When.EXISTING_RULES), False),
        ("compute.networks.updatePolicy", (When.EXISTING_NETWORK,), True),
        ("compute.networks.updatePolicy", (When.EXISTING_NETWORK, When.SHARED_NETWORK), False),
        ("dns.managedZones.create", (When.EXISTING_NETWORK,), False),
        ("compute.routers.create", (When.EXISTING_NETWORK, When.NAT), True),
        ("serviceusage.services.enable", (), True),
        ("serviceusage.services.enable", (When.EXISTING_APIS,), False),
        ("storage.buckets.create", (), True),
        ("storage.buckets.create", (When.NO_BUCKET,), False),
        ("storage.buckets.get", (When.NO_BUCKET,), True),
        ("storage.buckets.setIamPolicy", (When.NO_BUCKET,), True),
        ("storage.buckets.setIamPolicy", (When.NO_BUCKET_ROLES,), False),
        ("storage.buckets.getIamPolicy", (When.NO_BUCKET_ROLES,), False),
        ("storage.objects.create", (When.NO_BUCKET,), True),
        ("storage.objects.create", (When.EXISTING_WEIGHTS,), False),
        ("storage.objects.get", (When.EXISTING_WEIGHTS,), True),
        ("iam.serviceAccounts.create", (), True),
        ("iam.serviceAccounts.create", (When.EXISTING_ACCOUNT,), False),
        ("resourcemanager.projects.setIamPolicy", (), True),
        ("resourcemanager.projects.setIamPolicy", (When.EXISTING_ACCOUNT,), False),
        ("storage.buckets.setIamPolicy", (When.EXISTING_ACCOUNT,), True),
        ("secretmanager.secrets.setIamPolicy", (When.EXISTING_ACCOUNT,), True),
        ("storage.buckets.setIamPolicy", (When.EXISTING_ACCOUNT, When.NO_BUCKET_ROLES), False),
        (
            "secretmanager.secrets.setIamPolicy",
            (When.EXISTING_ACCOUNT, When.EXISTING_GRANTS),
            False,
        ),
    ],
)
def test_what_others_make_or_grant_needs_no_right(
    permission: str, stacks: tuple[When, ...], needed: bool
) -> None:
    """`doctor`, and `up` by it, ask for no right to make or grant what the stack does not, or to
    write weights where others may have."""
    assert (permission in roles().needed(Command.UP, stacks)) is needed
