"""The section `identity`: a service account of one's own, and who grants it what."""

from __future__ import annotations

import pytest

from tests.unit.stack_sections import findings, sections
from tpuflex.settings.identity import ExistingAccount, IdentitySettings
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings

EMAIL = "serving@acme-serving.iam.gserviceaccount.com"
_WRITE = "Write NAME@PROJECT.iam.gserviceaccount.com of one that somebody made for such hosts."


def test_an_account_of_yours() -> None:
    """It is known by project, path and member; by default there is none."""
    settings = parse(sections({"identity": {"service_account": EMAIL}}), "test")

    assert settings.identity.existing == ExistingAccount("acme-serving", EMAIL)
    assert settings.identity.existing.path == f"projects/acme-serving/serviceAccounts/{EMAIL}"
    assert settings.identity.existing.member == f"serviceAccount:{EMAIL}"
    assert settings.identity.manage_grants
    assert parse(sections(), "test").identity == IdentitySettings()
    assert IdentitySettings().existing is None


@pytest.mark.parametrize(
    ("email", "said"),
    [
        *(
            (
                email,
                f"{email} is an account of Google's own making: the whole project shares it,"
                " or a service acts by it",
            )
            for email in (
                "123456789012-compute@developer.gserviceaccount.com",
                "acme-serving@appspot.gserviceaccount.com",
                "123456789012@cloudservices.gserviceaccount.com",
                "service-123456789012@cloud-tpu.iam.gserviceaccount.com",
                "service-123456789012@gcp-sa-tpu.iam.gserviceaccount.com",
            )
        ),
        *(
            (email, f"{email!r} is no email of a service account")
            for email in ("default", "", "me@example.com", "serving", f"{EMAIL}\n", "S@p")
        ),
    ],
)
def test_what_is_no_account_of_yours_is_refused(email: str, said: str) -> None:
    """Default accounts are shared by the whole project, service agents act for services."""
    (finding,) = findings(sections({"identity": {"service_account": email}}))

    assert str(finding) == f"tpuflex:identity.service_account: {said}. {_WRITE}"


def test_grants_of_others_are_for_an_account_of_yours() -> None:
    """An account of the endpoint's own is made with it, and nobody could grant it anything."""
    (finding,) = findings(sections({"identity": {"manage_grants": False}}))

    assert str(finding) == (
        "tpuflex:identity.manage_grants: false is for an account of yours: nobody grants anything"
        " to one of the endpoint's own. Remove it, or name your account in"
        " tpuflex:identity.service_account."
    )


def test_an_account_of_another_project_may_need_more() -> None:
    """It is tried, with a warning."""
    other = "serving@acme-accounts.iam.gserviceaccount.com"
    (found,) = [
        each
        for each in warnings(parse(sections({"identity": {"service_account": other}}), "test"))
        if each.key == "tpuflex:identity.service_account"
    ]

    assert "it is of acme-accounts, and hosts of acme-serving run as it only" in str(found)
    mine = parse(sections({"identity": {"service_account": EMAIL}}), "test")
    assert not [each for each in warnings(mine) if "identity" in each.key]
