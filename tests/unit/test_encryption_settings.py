"""The section `encryption`: a key of one's own for what a stack makes."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import findings, sections
from tpuflex.google.existing_key import agents, unusable
from tpuflex.queued_resource.model import BootDiskConfig
from tpuflex.roles.roles import Command, When, roles
from tpuflex.settings.encryption import EncryptionSettings
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings

KEY = "projects/acme-keys/locations/us-east5/keyRings/team/cryptoKeys/weights"


def test_a_key_of_yours() -> None:
    """It is kept, and its location is known; by default there is none."""
    settings = parse(sections({"encryption": {"kms_key": KEY}}), "test")

    assert settings.encryption.location == "us-east5"
    assert settings.existing_paths == (KEY,)
    assert parse(sections(), "test").encryption == EncryptionSettings()
    assert EncryptionSettings().location == ""


@pytest.mark.parametrize(
    "name",
    [
        "",
        "weights",
        f"{KEY}/cryptoKeyVersions/1",
        f"https://cloudkms.googleapis.com/v1/{KEY}",
        f"{KEY}\n",
        KEY.replace("acme-keys", "Acme"),
        KEY.replace("weights", "we.ights"),
        KEY.replace("us-east5", ""),
    ],
)
def test_what_is_no_name_of_a_key_is_refused(name: str) -> None:
    """A version too: the services use the primary one, and rotate with it."""
    (finding,) = findings(sections({"encryption": {"kms_key": name}}))

    assert finding.key == "tpuflex:encryption.kms_key"
    assert finding.remedy == (
        "Write projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY, without a version."
    )


@pytest.mark.parametrize("location", ["global", "us", "us-east1"])
def test_a_key_of_elsewhere_is_refused(location: str) -> None:
    """No service takes a key of another place than that of the data; of the zones' region it is
    good for every zone."""
    other = KEY.replace("us-east5", location)
    (finding,) = findings(sections({"encryption": {"kms_key": other}}))
    zones = {"slice.zones": ["us-east5-a", "us-east5-b"]}

    assert str(finding) == (
        f"tpuflex:encryption.kms_key: the key is in {location}, and what it is to encrypt is in"
        " us-east5. Write a key in us-east5."
    )
    assert findings(sections({"encryption": {"kms_key": KEY}, **zones})) == ()


@pytest.mark.parametrize(
    ("bucket", "home"),
    [("own", ""), ("library", "the library"), ("gs://acme-models/llm", "gs://acme-models")],
)
def test_weights_elsewhere_are_not_encrypted_with_it(bucket: str, home: str) -> None:
    """It is said: the stack does not make that bucket."""
    said = {"encryption": {"kms_key": KEY}, "model.weights.bucket": bucket}
    found = [str(each) for each in warnings(parse(sections(said), "test"))]

    text = f"tpuflex:encryption.kms_key: it does not encrypt the weights: they are kept in {home}"
    assert any(each.startswith(text) for each in found) is bool(home)
    without = warnings(parse(sections({"model.weights.bucket": bucket}), "test"))
    assert not [each for each in without if "encryption" in each.key]


def test_who_has_to_be_let_use_it() -> None:
    """The service agents of the stack's project, and none that has nothing to encrypt."""
    theirs = {
        "model.weights.bucket": "library",
        "serving.compile_cache": "none",
        "secrets": {"api_key": "projects/acme-vault/secrets/key/versions/1"},
    }
    every = agents(parse(sections(), "test"), "123")
    only = agents(parse(sections(theirs), "test"), "123")

    host = "iam.gserviceaccount.com"
    assert [(each.member, each.making and str(each.making)) for each in every] == [
        (
            f"serviceAccount:service-123@gs-project-accounts.{host}",
            "gcloud storage service-agent --project=acme-serving",
        ),
        (
            f"serviceAccount:service-123@gcp-sa-secretmanager.{host}",
            "gcloud beta services identity create --service=secretmanager.googleapis.com"
            " --project=acme-serving",
        ),
        (f"serviceAccount:service-123@compute-system.{host}", None),
    ]
    assert [each.service for each in only] == ["Compute Engine"]


@pytest.mark.parametrize(
    ("purpose", "primary", "said"),
    [
        ("ENCRYPT_DECRYPT", {"state": "ENABLED"}, ""),
        (None, None, ""),
        ("ASYMMETRIC_SIGN", None, f"{KEY} is for ASYMMETRIC_SIGN"),
        ("ENCRYPT_DECRYPT", {"state": "DISABLED"}, f"the primary version of {KEY} is DISABLED"),
        ("ENCRYPT_DECRYPT", {}, f"the primary version of {KEY} is not there"),
    ],
)
def test_whether_a_key_can_encrypt(purpose: object, primary: object, said: str) -> None:
    """As far as it is known: what is not, Google says."""
    text, _, remedy = unusable(KEY, purpose, primary).partition("\n")

    assert text == (said and f"tpuflex:encryption.kms_key: {said}")
    assert bool(remedy) is bool(said)


def test_an_answer_that_names_the_version_is_no_change_of_the_key() -> None:
    """It may name the version that has encrypted the disk; taken for an input, it would replace
    the slice."""
    for answered in (KEY, f"{KEY}/cryptoKeyVersions/7"):
        disk = BootDiskConfig.model_validate({"customerEncryptionKey": {"kmsKeyName": answered}})
        assert disk.customer_encryption_key.kms_key_name == KEY


@pytest.mark.parametrize(
    ("command", "needed"), [(Command.PREVIEW, []), (Command.UP, ["cloudkms.cryptoKeys.get"])]
)
def test_a_right_on_keys_is_needed_only_with_a_key(command: Command, needed: list[str]) -> None:
    """Policies are looked at as far as that is allowed; a preview goes on without the key, too."""
    with_key = roles().needed(command, [When.EXISTING_KEY])
    every = [name for name in with_key if name.startswith("cloudkms.")]

    assert every == needed
    assert not [name for name in roles().needed(command, []) if name.startswith("cloudkms.")]
