"""Secrets: their versions are listed, and the user's own get none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doctor.examined import Doctor
from tests.unit.stack_sections import sections
from tpuflex.deploy.secrets import (
    AddedVersion,
    ListedVersion,
    list_secrets,
    plan_rotation,
    put_secret,
    require_containers,
    require_own_secret,
    rotate_secret,
)
from tpuflex.errors import (
    InterruptedByUser,
    NotFoundError,
    PlanChangedError,
    SettingsError,
    UsageError,
)
from tpuflex.google.secrets import SecretVersion
from tpuflex.naming import API_KEY, METRICS_KEY, TLS_CERTIFICATE
from tpuflex.operate.endpoint_connection import api_key
from tpuflex.operate.endpoint_status import gone_container
from tpuflex.settings.load import parse
from tpuflex.settings.secrets import SecretsSettings
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import agree
from tpuflex.stack.stack import Stack


def with_(stack: Stack, **changes: object) -> Stack:
    """``stack`` with these settings."""
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return replace(stack, settings=parse(sections(named), "test"))


def test_nothing_is_put_into_a_secret_of_yours(stack: Stack) -> None:
    """It is said what to do instead."""
    name = "projects/acme-vault/secrets/vllm-key/versions/3"
    with pytest.raises(SettingsError) as caught:
        require_own_secret(with_(stack, secrets={"api_key": name}), API_KEY)

    assert [str(each) for each in caught.value.findings] == [
        f"tpuflex:secrets.api_key: it is {name}, a secret of yours, to which tpuflex adds nothing."
        " Add the version there, and write its number here; or remove the line for a secret of the"
        " stack's own."
    ]
    require_own_secret(with_(stack), API_KEY)


def test_versions_are_listed(doctor: Doctor) -> None:
    """Those of the stack's own secrets, and the pinned one of the user's own, which is missing; of
    a secret that is not made, none."""
    theirs = "projects/acme-vault/secrets/collector/versions/3"
    secrets = SecretsSettings.model_validate({"api_key_version": 1, "metrics_key": theirs})
    settings = doctor.stack.settings.model_copy(update={"secrets": secrets})
    doctor.stack = replace(doctor.stack, settings=settings)
    parent, _, name = doctor.cloud.secret(API_KEY).rpartition("/")
    doctor.call("POST", f"v1/{parent}?secretId={name}", {"replication": {"automatic": {}}})
    for _ in range(2):
        doctor.call("POST", f"v1/{parent}/{name}:addVersion", {"payload": {"data": "YQ=="}})
    doctor.call("POST", f"v1/{parent}/{name}/versions/1:disable", {})

    found = {(each.role, each.number): each.state for each in list_secrets(doctor.cloud)}

    assert found == {
        (API_KEY, 1): "DISABLED",
        (API_KEY, 2): "ENABLED",
        (METRICS_KEY, 3): "MISSING, in projects/acme-vault/secrets/collector",
    }


def test_a_key_is_rotated(doctor: Doctor) -> None:
    """The next version gets a new key, once that is agreed to; the old one stays as it is, and the
    stack file says which is used. Another number than was expected adds nothing."""
    cloud, secret = doctor.cloud, doctor.cloud.secret(API_KEY)
    parent, _, name = secret.rpartition("/")
    doctor.call("POST", f"v1/{parent}?secretId={name}", {"replication": {"automatic": {}}})
    cloud.secrets.add_version(secret, "old")
    plan = plan_rotation(cloud, API_KEY)
    with pytest.raises(InterruptedByUser):
        rotate_secret(cloud, API_KEY, consent=lambda _question: False)
    with pytest.raises(PlanChangedError, match=r"version 2, and 3 was expected"):
        rotate_secret(cloud, API_KEY, consent=agree, expected=3)
    added = rotate_secret(cloud, API_KEY, consent=agree, expected=plan.number)

    assert (plan.pinned, plan.number, added.version.number) == (1, 2, 2)
    assert cloud.secrets.access(f"{secret}/versions/1") == "old"
    assert len(cloud.secrets.access(f"{secret}/versions/2")) == 43
    assert api_key(cloud) == "old"
    assert plan_rotation(cloud, API_KEY).number == 3


def test_what_is_not_rotated(doctor: Doctor) -> None:
    """A value that tpuflex does not make, and the keys of several clients, which one new key would
    take back."""
    cloud, secret = doctor.cloud, doctor.cloud.secret(API_KEY)
    parent, _, name = secret.rpartition("/")
    doctor.call("POST", f"v1/{parent}?secretId={name}", {"replication": {"automatic": {}}})
    cloud.secrets.add_version(secret, "one\nother")
    certificate = with_(cloud.stack, secrets={"api_key_version": 1, "tls_certificate_version": 1})

    with pytest.raises(UsageError, match="several clients"):
        plan_rotation(cloud, API_KEY)
    with pytest.raises(UsageError, match="tpuflex secrets put tls-certificate"):
        plan_rotation(replace(cloud, stack=certificate), TLS_CERTIFICATE)
    with pytest.raises(SettingsError):
        plan_rotation(cloud, METRICS_KEY)


def test_what_somebody_has_deleted_is_seen(doctor: Doctor) -> None:
    """A secret, or the bucket, of a stack whose state has all of it: `up` makes it again, and no
    command ends with Google's words for what is not there."""
    cloud = doctor.cloud
    secret = cloud.stack.names.secret(API_KEY)
    assert gone_container(cloud) == f"The secret {secret}"
    with pytest.raises(NotFoundError, match=f"The secret {secret} is gone"):
        require_containers(cloud)
    with pytest.raises(NotFoundError, match=f"Version 1 of the secret {secret} is gone") as gone:
        api_key(cloud)
    assert "`tpuflex up` makes it again" in str(gone.value.hint)

    parent = cloud.secret(API_KEY).rpartition("/")[0]
    for role in cloud.stack.settings.secrets.versions:
        name = cloud.stack.names.secret(role)
        doctor.call("POST", f"v1/{parent}?secretId={name}", {"replication": {"automatic": {}}})
    assert gone_container(cloud) == f"The bucket {cloud.bucket}"

    doctor.call(
        "POST", f"storage/v1/b?project={cloud.stack.settings.project}", {"name": cloud.bucket}
    )
    assert gone_container(cloud) == ""


def test_a_secret_that_the_stack_has_not_takes_nothing(stack: Stack) -> None:
    """It is refused before the cloud is asked."""
    with pytest.raises(SettingsError, match="the stack has no such secret"):
        put_secret(Connection(stack, {}), TLS_CERTIFICATE, "pem", consent=agree)


def test_what_is_told_in_documents() -> None:
    """The documents of `secrets put` and `secrets ls`: no value is in them."""
    added = AddedVersion(API_KEY, SecretVersion("projects/p/secrets/s/versions/2", 2, "ENABLED"))

    assert added.to_json() == {"name": "projects/p/secrets/s/versions/2", "version": 2}
    assert ListedVersion(API_KEY, 2, "ENABLED").to_json() == {
        "role": API_KEY,
        "version": 2,
        "state": "ENABLED",
    }


def test_a_key_that_no_client_can_send_is_not_stored(stack: Stack) -> None:
    """A program that stores one is refused before the cloud is asked, and the value is not
    repeated."""
    with pytest.raises(UsageError) as caught:
        put_secret(Connection(stack, {}), API_KEY, "sk-canäry", consent=agree)

    assert "canäry" not in str(caught.value)
