"""Secrets of an endpoint: of the stack's own, or versions that are there already."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import PIN, sections
from tpuflex.boot.config import boot_config
from tpuflex.errors import SettingsError
from tpuflex.naming import Names
from tpuflex.settings.load import parse
from tpuflex.settings.model import StackSettings
from tpuflex.settings.rules import warnings

NAMES = Names("tpuflex", "dev", "vllm")
KEY = "projects/acme-vault/secrets/vllm-key/versions/3"


def with_secrets(**secrets: object) -> StackSettings:
    """A stack with this section."""
    return parse(sections({"secrets": secrets}), "test")


def test_a_version_of_yours_takes_the_place_of_the_stacks_own() -> None:
    """Hosts fetch that one; the others are as they were, and no container is made for it."""
    settings = with_secrets(api_key=KEY, tls_certificate_version=2)
    booted = boot_config(settings, NAMES, PIN)

    assert [(each.role, each.version) for each in booted.secrets] == [
        ("api-key", KEY),
        ("tls-certificate", NAMES.secret_version("acme-serving", "tls-certificate", 2)),
    ]
    assert settings.secrets.versions == {"tls-certificate": 2, "programs-key": 1}
    assert settings.existing_paths == ("projects/acme-vault/secrets/vllm-key",)


def test_without_one_all_are_the_stacks_own() -> None:
    """A key for clients, and another one for compiled programs."""
    settings = with_secrets()

    assert settings.secrets.existing == {}
    assert settings.secrets.versions == {"api-key": 1, "programs-key": 1}
    assert settings.secrets.roles == settings.secrets.host_roles == ("api-key", "programs-key")


@pytest.mark.parametrize(
    ("changed", "signed"),
    [
        ({"serving.compile_cache": "bucket"}, True),
        ({"serving.compile_cache": "host"}, True),
        ({"serving.compile_cache": "none"}, False),
        ({"model.weights.bucket": "library"}, False),
        ({"model.weights.bucket": "library", "serving.compile_cache": "host"}, True),
        ({"model.weights.bucket": "gs://acme-models"}, True),
    ],
)
def test_a_key_for_programs_is_there_where_some_are_signed(
    changed: dict[str, object], signed: bool
) -> None:
    """Of those that the library keeps, it has the key; where none are kept, one is refused."""
    weights = {key: value for key, value in changed.items() if key.startswith("model")}
    settings = parse(sections(changed), "test")
    booted = boot_config(settings, NAMES, PIN)

    assert ("programs-key" in settings.secrets.host_roles) is signed
    own = NAMES.secret_version("acme-serving", "programs-key", 1)
    assert (booted.compile_cache.key == own) is signed
    mine = {"programs_key": "projects/acme-vault/secrets/programs/versions/7"}
    if signed:
        of_mine = parse(sections({**changed, "secrets": mine}), "test")
        assert boot_config(of_mine, NAMES, PIN).compile_cache.key == mine["programs_key"]
        assert "programs-key" not in of_mine.secrets.versions
        return
    why = "the library signs them with its own" if weights else "none are kept"
    for secrets in (mine, {"programs_key_version": 1}):
        with pytest.raises(SettingsError) as caught:
            parse(sections({**changed, "secrets": secrets}), "test")
        (finding,) = caught.value.findings
        assert finding.problem == f"it would have no effect: of compiled programs {why}"


def test_hosts_do_not_fetch_the_token_of_the_hub() -> None:
    """Whoever pushes weights does."""
    settings = with_secrets(hf_token="projects/acme-vault/secrets/hub/versions/1")

    assert settings.secrets.roles == ("api-key", "programs-key", "hf-token")
    assert settings.secrets.host_roles == ("api-key", "programs-key")


def test_a_certificate_of_yours_makes_the_server_speak_tls() -> None:
    """As one of the stack's own does."""
    settings = with_secrets(tls_certificate="projects/acme-vault/secrets/tls/versions/1")

    assert settings.url("10.0.0.1") == "https://10.0.0.1:8000/v1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vllm-key",
        "projects/acme-vault/secrets/vllm-key",
        "projects/acme-vault/secrets/vllm-key/versions/latest",
        "projects/acme-vault/secrets/vllm-key/versions/0",
        "projects/123/secrets/vllm-key/versions/1",
        "projects/acme-vault/secrets/vllm key/versions/1",
        "projects/acme-vault/secrets/k'y/versions/1",
        "projects/acme-vault/secrets/vllm-key/versions/1\n",
    ],
)
def test_what_names_no_pinned_version_is_refused(text: str) -> None:
    """`latest` means another key tomorrow, on a host that boots again. The value is not repeated:
    it may be the key itself."""
    with pytest.raises(SettingsError) as caught:
        with_secrets(api_key=text)

    (finding,) = caught.value.findings
    assert (finding.key, finding.problem, finding.remedy) == (
        "tpuflex:secrets.api_key",
        "the value cannot be used",
        "Write a version with its number: projects/PROJECT/secrets/NAME/versions/1.",
    )


@pytest.mark.parametrize(
    "section",
    [
        {"api_key": "sk-CANARY"},
        {"api_key": ["sk-CANARY"]},
        {"api_key_version": "sk-CANARY"},
        {"manage_grants": "sk-CANARY"},
        "sk-CANARY",
    ],
)
def test_a_secret_in_the_place_of_its_version_is_not_repeated(section: object) -> None:
    """Errors end in logs, and those of pull requests are read by many."""
    with pytest.raises(SettingsError) as caught:
        parse(sections({"secrets": section}), "test")

    (finding,) = caught.value.findings
    assert finding.key.startswith("tpuflex:secrets")
    assert finding.problem.startswith("the value ")
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        (
            {"api_key": KEY, "api_key_version": 2},
            "tpuflex:secrets.api_key_version: it would have no effect: api_key names a secret of"
            " yours. Remove one of the two.",
        ),
        (
            {"hf_token": KEY, "hf_token_version": 1},
            "tpuflex:secrets.hf_token_version: it would have no effect: hf_token names a secret of"
            " yours. Remove one of the two.",
        ),
        (
            {"manage_grants": False},
            "tpuflex:secrets.manage_grants: it would have no effect: no secret is yours. Remove it,"
            " or name one, such as api_key: projects/PROJECT/secrets/NAME/versions/1.",
        ),
        (
            {"api_key": KEY, "metrics_key": KEY},
            "tpuflex:secrets.metrics_key: it names the same version as api_key. Write a secret of"
            " its own: each is for another purpose.",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(secrets: dict[str, object], said: str) -> None:
    """By key, with what to do."""
    with pytest.raises(SettingsError) as caught:
        with_secrets(**secrets)

    assert [str(each) for each in caught.value.findings] == [said]


@pytest.mark.parametrize(
    ("identity", "warned"),
    [({}, True), ({"service_account": "serving@acme-serving.iam.gserviceaccount.com"}, False)],
)
def test_an_account_that_is_not_made_yet_has_no_right(
    identity: dict[str, object], warned: bool
) -> None:
    """Google takes no grant for an account that is not there: the plan says so."""
    secrets = {"api_key": KEY, "manage_grants": False}
    weights = {"bucket": "gs://acme-models", "manage_grants": False}
    changed = {"secrets": secrets, "identity": identity, "model.weights": weights}
    found = {each.key for each in warnings(parse(sections(changed), "test"))}

    for section in ("secrets", "model.weights"):
        assert (f"tpuflex:{section}.manage_grants" in found) is warned
