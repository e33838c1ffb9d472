"""What `tpuflex doctor` says of a key of the user's, and of who may use it."""

from __future__ import annotations

import pytest

from tests.cli.typing import NOON
from tests.goldens.golden_texts import assert_golden
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.steps.doctor import show
from tpuflex.gcloud_commands import create_agent
from tpuflex.gcp.brought_key import USE_ROLE, Agent
from tpuflex.gcp.transport import JsonObject
from tpuflex.operate.doctor.check import Standing
from tpuflex.operate.doctor.encryption_key import agent_checks, key_check
from tpuflex.operate.doctor.reading import Unread

KEY = "projects/acme-keys/locations/us-east5/keyRings/team/cryptoKeys/weights"
GOOD: JsonObject = {"purpose": "ENCRYPT_DECRYPT", "primary": {"state": "ENABLED"}}
DENIED = Unread("403 PERMISSION_DENIED: not you", "Ask for the role.")
NOTHING: JsonObject = {}
SECRETS = Agent(
    "Secret Manager",
    "the secrets",
    "service-1@gcp-sa-secretmanager.iam.gserviceaccount.com",
    create_agent("p", "secretmanager.googleapis.com"),
)
DISKS = Agent("Compute Engine", "boot disks", "service-1@compute-system.iam.gserviceaccount.com")


def policy(role: str = USE_ROLE, agent: Agent = DISKS, **more: JsonObject) -> JsonObject:
    """A policy with one binding."""
    return {"bindings": [{"role": role, "members": ["user:ada@example.com", agent.member], **more}]}


def test_whole_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The key in each state that it may be found in, and who lacks the role with the commands."""
    checks = [
        key_check(KEY, GOOD),
        key_check(KEY, None),
        key_check(KEY, DENIED),
        key_check(KEY, {**GOOD, "primary": {"state": "DISABLED"}}),
        key_check(KEY, {"purpose": "ENCRYPT_DECRYPT"}),
        key_check(KEY, {"purpose": "ASYMMETRIC_SIGN"}),
        *agent_checks(KEY, (SECRETS, DISKS), [policy(), NOTHING, NOTHING]),
        *agent_checks(KEY, (SECRETS,), [NOTHING, NOTHING, DENIED]),
    ]
    show(Invocation(environ={}, now=lambda: NOON), checks)

    assert_golden("doctor/key-of-yours.txt", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("policies", "standing"),
    [
        ([policy(), NOTHING, NOTHING], Standing.OK),
        ([NOTHING, policy(), NOTHING], Standing.OK),
        ([NOTHING, NOTHING, policy()], Standing.OK),
        ([policy(), DENIED, DENIED], Standing.OK),
        ([policy("roles/cloudkms.cryptoOperator"), None, NOTHING], Standing.OK),
        ([policy(agent=SECRETS), NOTHING, NOTHING], Standing.FAILED),
        ([policy("roles/cloudkms.cryptoKeyDecrypter"), NOTHING, NOTHING], Standing.FAILED),
        ([policy("roles/cloudkms.admin"), NOTHING, NOTHING], Standing.FAILED),
        ([NOTHING, NOTHING, DENIED], Standing.UNKNOWN),
        ([policy("projects/p/roles/uses"), NOTHING, NOTHING], Standing.UNKNOWN),
        ([policy(condition={"title": "nights"}), NOTHING, NOTHING], Standing.UNKNOWN),
    ],
)
def test_what_the_policies_say(
    policies: list[JsonObject | Unread | None], standing: Standing
) -> None:
    """A grant on the key, its ring or its project counts; a failure is said only where all three
    were read and none could hold it."""
    (check,) = agent_checks(KEY, (DISKS,), policies)

    assert check.standing is standing
    if standing is not Standing.OK:
        assert check.remedy == (
            "gcloud kms keys add-iam-policy-binding weights --keyring=team --location=us-east5"
            f" --project=acme-keys --member={DISKS.member} --role={USE_ROLE}"
        )
