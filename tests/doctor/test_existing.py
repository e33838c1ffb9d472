"""What `tpuflex doctor` says of an account and a key of the user's, and of what is granted."""

from __future__ import annotations

import pytest

from tests.cli.typing import NOON, Captured
from tests.goldens.golden_texts import assert_golden
from tpuflex.cli.doctor.run import show
from tpuflex.cli.invocation import Invocation
from tpuflex.doctor.check import Standing
from tpuflex.doctor.encryption_key import agent_checks, key_check
from tpuflex.doctor.host_account import (
    ACT_AS,
    Needed,
    account_check,
    grant_checks,
)
from tpuflex.gcloud_commands import create_agent
from tpuflex.google.existing_key import USE_ROLE, Agent
from tpuflex.google.held_permissions import HeldPermissions
from tpuflex.google.reading import Unread
from tpuflex.google.transport import JsonObject

EMAIL = "serving@p.iam.gserviceaccount.com"
MEMBER = f"serviceAccount:{EMAIL}"
DENIED = Unread("403 PERMISSION_DENIED: not you", "Ask for the role.")
READS = Needed("roles/storage.objectViewer", "read the weights", "bucket b")
KEY = Needed("roles/secretmanager.secretAccessor", "read api-key", "secret s")
LOGS = Needed("roles/logging.logWriter", "write logs", vital=False)
NOTHING: JsonObject = {}


def policy(role: str, member: str = MEMBER, **more: JsonObject) -> JsonObject:
    """A policy with one binding."""
    return {"bindings": [{"role": role, "members": ["user:ada@example.com", member], **more}]}


def test_an_account_of_yours(capsys: Captured) -> None:
    """The account in each state that it may be found in, and each role with its command."""
    allowed = HeldPermissions(frozenset({ACT_AS}))
    policies = {"": NOTHING, "bucket b": NOTHING, "secret s": None}
    checks = [
        account_check(EMAIL, "p", {}, allowed),
        account_check(EMAIL, "p", None, allowed),
        account_check(EMAIL, "p", {"disabled": True}, allowed),
        account_check(EMAIL, "p", {}, HeldPermissions(frozenset())),
        account_check(EMAIL, "p", DENIED, allowed),
        account_check(EMAIL, "p", {}, DENIED),
        *grant_checks("p", MEMBER, (LOGS, READS, KEY), policies),
        *grant_checks("p", MEMBER, (READS,), {"": DENIED, "bucket b": NOTHING}),
        *grant_checks("p", MEMBER, (READS,), {"": NOTHING, "bucket b": policy(READS.role)}),
    ]
    show(Invocation(environ={}, now=lambda: NOON), checks)

    assert_golden("doctor/account-of-yours.txt", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("on_project", "on_bucket", "standing"),
    [
        (NOTHING, policy(READS.role), Standing.OK),
        (NOTHING, policy("roles/storage.objectAdmin"), Standing.OK),
        (policy(READS.role), None, Standing.OK),
        (policy(READS.role), DENIED, Standing.OK),
        (DENIED, policy(READS.role), Standing.OK),
        (NOTHING, policy(READS.role, "serviceAccount:other@p.iam"), Standing.FAILED),
        (NOTHING, policy("roles/storage.objectCreator"), Standing.FAILED),
        (policy("roles/editor"), NOTHING, Standing.FAILED),
        (NOTHING, None, Standing.FAILED),
        (NOTHING, DENIED, Standing.UNKNOWN),
        (DENIED, NOTHING, Standing.UNKNOWN),
        (NOTHING, policy("projects/p/roles/reader"), Standing.UNKNOWN),
        (NOTHING, policy(READS.role, condition={"title": "nights"}), Standing.UNKNOWN),
    ],
)
def test_what_an_account_is_granted(
    on_project: JsonObject | Unread, on_bucket: JsonObject | Unread | None, standing: Standing
) -> None:
    """A grant on the project counts; a failure is said only where both were read and neither could
    hold it: a role of one's own, and a condition, may be right."""
    (check,) = grant_checks("p", MEMBER, (READS,), {"": on_project, "bucket b": on_bucket})

    assert check.standing is standing
    if standing is not Standing.OK:
        assert check.remedy == (
            "gcloud storage buckets add-iam-policy-binding gs://b"
            f" --member={MEMBER} --role=roles/storage.objectViewer"
        )


def test_a_secret_of_another_project() -> None:
    """The command that grants a role on it names its project."""
    theirs = "secret projects/vault/secrets/key"
    needed = Needed(KEY.role, "read api-key", theirs)
    (check,) = grant_checks("p", MEMBER, (needed,), {"": NOTHING, theirs: NOTHING})

    assert check.standing is Standing.FAILED
    assert check.remedy == (
        f"gcloud secrets add-iam-policy-binding key --project=vault --member={MEMBER}"
        " --role=roles/secretmanager.secretAccessor"
    )


CRYPTO_KEY = "projects/acme-keys/locations/us-east5/keyRings/team/cryptoKeys/weights"
GOOD: JsonObject = {"purpose": "ENCRYPT_DECRYPT", "primary": {"state": "ENABLED"}}
SECRETS = Agent(
    "Secret Manager",
    "the secrets",
    "service-1@gcp-sa-secretmanager.iam.gserviceaccount.com",
    create_agent("p", "secretmanager.googleapis.com"),
)
DISKS = Agent("Compute Engine", "boot disks", "service-1@compute-system.iam.gserviceaccount.com")


def use(role: str = USE_ROLE, agent: Agent = DISKS, **more: JsonObject) -> JsonObject:
    """A policy that lets an agent of Google's."""
    return policy(role, agent.member, **more)


def test_a_key_of_yours(capsys: Captured) -> None:
    """The key in each state that it may be found in, and who lacks the role with the commands."""
    checks = [
        key_check(CRYPTO_KEY, GOOD),
        key_check(CRYPTO_KEY, None),
        key_check(CRYPTO_KEY, DENIED),
        key_check(CRYPTO_KEY, {**GOOD, "primary": {"state": "DISABLED"}}),
        key_check(CRYPTO_KEY, {"purpose": "ENCRYPT_DECRYPT"}),
        key_check(CRYPTO_KEY, {"purpose": "ASYMMETRIC_SIGN"}),
        *agent_checks(CRYPTO_KEY, (SECRETS, DISKS), [use(), NOTHING, NOTHING]),
        *agent_checks(CRYPTO_KEY, (SECRETS,), [NOTHING, NOTHING, DENIED]),
    ]
    show(Invocation(environ={}, now=lambda: NOON), checks)

    assert_golden("doctor/key-of-yours.txt", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("policies", "standing"),
    [
        ([use(), NOTHING, NOTHING], Standing.OK),
        ([NOTHING, use(), NOTHING], Standing.OK),
        ([NOTHING, NOTHING, use()], Standing.OK),
        ([use(), DENIED, DENIED], Standing.OK),
        ([use("roles/cloudkms.cryptoOperator"), None, NOTHING], Standing.OK),
        ([use(agent=SECRETS), NOTHING, NOTHING], Standing.FAILED),
        ([use("roles/cloudkms.cryptoKeyDecrypter"), NOTHING, NOTHING], Standing.FAILED),
        ([use("roles/cloudkms.admin"), NOTHING, NOTHING], Standing.FAILED),
        ([NOTHING, NOTHING, DENIED], Standing.UNKNOWN),
        ([use("projects/p/roles/uses"), NOTHING, NOTHING], Standing.UNKNOWN),
        ([use(condition={"title": "nights"}), NOTHING, NOTHING], Standing.UNKNOWN),
    ],
)
def test_who_may_use_a_key(policies: list[JsonObject | Unread | None], standing: Standing) -> None:
    """A grant on the key, its ring or its project counts; a failure is said only where all three
    were read and none could hold it."""
    (check,) = agent_checks(CRYPTO_KEY, (DISKS,), policies)

    assert check.standing is standing
    if standing is not Standing.OK:
        assert check.remedy == (
            "gcloud kms keys add-iam-policy-binding weights --keyring=team --location=us-east5"
            f" --project=acme-keys --member={DISKS.member} --role={USE_ROLE}"
        )
