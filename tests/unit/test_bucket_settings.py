"""Where weights are kept: in a bucket of the stack, of the library, or of the user's own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stack_sections import PIN, sections
from tpuflex.boot.config import boot_config
from tpuflex.boot.places import weights_prefix
from tpuflex.doctor.rights import all_needed, permission_checks
from tpuflex.errors import SettingsError
from tpuflex.google.held_permissions import HeldPermissions
from tpuflex.naming import Names
from tpuflex.roles.roles import When
from tpuflex.settings.bucket import ExistingBucket, existing_bucket
from tpuflex.settings.identity import IdentitySettings
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings

NAMES = Names("tpuflex", "dev", "vllm")
KEY = "tpuflex:model.weights.bucket"


def kept_in(bucket: str, **weights: object) -> StackSettings:
    """A stack whose weights are in ``bucket``."""
    more = {f"model.weights.{key}": value for key, value in weights.items()}
    return parse(sections({"model.weights.bucket": bucket, **more}), "test")


@pytest.mark.parametrize(
    ("bucket", "prefix"),
    [
        ("gs://acme-models", "models/google-gemma-4-e4b-it/1"),
        ("gs://acme-models/llm", "llm/models/google-gemma-4-e4b-it/1"),
        ("gs://acme-models/team_1/llm.v2", "team_1/llm.v2/models/google-gemma-4-e4b-it/1"),
    ],
)
def test_hosts_read_below_the_prefix(bucket: str, prefix: str) -> None:
    """The name is used as it is, and programs stay in the endpoint's own bucket."""
    settings = kept_in(bucket)
    booted = boot_config(settings, NAMES, PIN)

    assert weights_prefix(settings.model) == prefix
    assert (booted.weights.bucket, booted.weights.prefix) == ("acme-models", prefix)
    assert booted.compile_cache.bucket == NAMES.bucket("acme-serving", "us-east5")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "acme-models",
        "Own",
        "gs://",
        "gs://ab",
        "gs://Acme-models",
        "gs://acme-models/",
        "gs://acme-models//x",
        "gs://acme-models/../x",
        "gs://acme-models/.hidden",
        "gs://acme-models/a b",
        "gs://acme-models/a'b",
        "gs://acme-models/a\nb",
        "gs://acme-models" + "/a" * 9,
        f"gs://acme-models/{'a' * 64}",
        "s3://acme-models",
    ],
)
def test_what_names_no_bucket_is_refused(text: str) -> None:
    """By key, with what can be written; quotes would end the condition of the grant."""
    with pytest.raises(SettingsError) as caught:
        kept_in(text)

    (finding,) = caught.value.findings
    assert finding.key == KEY
    assert finding.problem == f"{json.dumps(text)[:57] if len(text) > 58 else json.dumps(text)}" + (
        "… cannot be used" if len(text) > 58 else " cannot be used"
    )
    assert finding.remedy == "Write own, library, or gs://BUCKET/PREFIX for one of yours."


@given(st.from_regex(r"[a-z0-9][a-z0-9_.-]{1,60}[a-z0-9](/[A-Za-z0-9_]{1,8}){0,8}", fullmatch=True))
def test_name_and_prefix_come_apart_and_together(place: str) -> None:
    """Nothing of what was written is lost or changed."""
    found = existing_bucket(f"gs://{place}")

    assert isinstance(found, ExistingBucket)
    assert "/".join(filter(None, (found.name, found.prefix))) == place


@pytest.mark.parametrize("word", ["own", "library"])
def test_the_words_name_none(word: str) -> None:
    """They are tpuflex's own, and the grants with them cannot be left out."""
    assert kept_in(word).model.weights.existing is None
    with pytest.raises(SettingsError, match="it would have no effect: the bucket is"):
        kept_in(word, manage_grants=False)


@pytest.mark.parametrize(
    ("bucket", "cache", "made"),
    [
        ("own", "none", True),
        ("library", "bucket", False),
        ("gs://acme-models", "bucket", True),
        ("gs://acme-models", "host", False),
        ("library", "none", False),
    ],
)
def test_whether_the_endpoint_makes_a_bucket(bucket: str, cache: str, made: bool) -> None:
    """Only for weights of its own, and for compiled programs."""
    settings = parse(
        sections({"model.weights.bucket": bucket, "serving.compile_cache": cache}), "test"
    )

    assert settings.makes_bucket is made


@pytest.mark.parametrize(
    ("cache", "manage", "granted"),
    [("host", False, False), ("host", True, True), ("bucket", False, True)],
)
def test_whether_a_role_on_a_bucket_is_given(cache: str, manage: bool, granted: bool) -> None:
    """On one of yours, unless you give it; on the stack's own, unless others grant everything."""
    weights = {"model.weights.bucket": "gs://acme-models", "model.weights.manage_grants": manage}
    settings = parse(sections({**weights, "serving.compile_cache": cache}), "test")

    assert settings.grants_on_bucket is granted
    others = {
        "service_account": "serving@acme-serving.iam.gserviceaccount.com",
        "manage_grants": False,
    }
    assert not settings.model_copy(
        update={"identity": IdentitySettings.model_validate(others)}
    ).grants_on_bucket


def test_what_is_kept_is_named() -> None:
    """The inventory lists the bucket beside the network."""
    assert kept_in("gs://acme-models/llm").existing_paths == ("gs://acme-models",)
    assert kept_in("own").existing_paths == ()


def test_what_is_missing_in_the_bucket_is_granted_there() -> None:
    """It may be of another project, where a role on the stack's own helps nobody."""
    stacks = (When.NO_BUCKET,)
    held = HeldPermissions(
        all_needed(stacks) - {"storage.buckets.get", "tpu.nodes.create"}, frozenset()
    )

    checks = permission_checks("acme-serving", stacks, held, bucket="gs://acme-models")

    assert next(
        str(check.remedy) for check in checks if check.name == "tpuflex up"
    ).splitlines() == [
        "gcloud storage buckets add-iam-policy-binding gs://acme-models --member=MEMBER"
        " --role=roles/storage.admin",
        "gcloud projects add-iam-policy-binding acme-serving --member=MEMBER"
        " --role=roles/tpu.admin",
        "where MEMBER is you, such as user:you@example.com",
    ]
