"""What a bootstrap is called, and whom it lets in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.components.bootstrap_names import BootstrapNames, Repository
from tpuflex.roles.roles import roles

NAMES = BootstrapNames("shop-ml", "us-east5")


def test_the_numbers_decide() -> None:
    """A name can be taken by somebody else once it is free; a number cannot."""
    repository = Repository("acme/chat", 12, 34)

    assert repository.condition == (
        "assertion.repository_owner_id == '12' && assertion.repository_id == '34'"
    )
    assert repository.deploys == (
        "assertion.sub.endsWith(':environment:production') && assertion.ref_protected == 'true'"
        " ? 'yes' : 'no'"
    )


@pytest.mark.parametrize(
    ("name", "owner", "id_", "environment"),
    [
        ("acme", 1, 2, "production"),
        ("acme/chat:ref:refs/heads/x", 1, 2, "production"),
        ("acme/chat' || true || '", 1, 2, "production"),
        ("acme/chat\n", 1, 2, "production"),
        ("acme/chat", 0, 2, "production"),
        ("acme/chat", 1, -2, "production"),
        ("acme/chat", 1, 2, ""),
        ("acme/chat", 1, 2, "prod:environment:production"),
    ],
)
def test_what_could_mean_something_else_is_refused(
    name: str, owner: int, id_: int, environment: str
) -> None:
    """What goes into a principal or a condition cannot end it."""
    with pytest.raises(ValueError, match=r"no repository|no name|positive"):
        Repository(name, owner, id_, environment)


@given(st.text(max_size=30))
def test_an_expression_ends_where_it_should(environment: str) -> None:
    """Whatever is accepted is one word within the quotes of Google's expression."""
    try:
        deploys = Repository("acme/chat", 1, 2, environment).deploys
    except ValueError:
        return
    assert re.fullmatch(
        r"assertion\.sub\.endsWith\(':environment:[^:/\s'\\]+'\)"
        r" && assertion\.ref_protected == 'true' \? 'yes' : 'no'",
        deploys,
    )


def test_variables() -> None:
    """What workflows have to know; pools are named by the project's number."""
    assert NAMES.variables("42") == {
        "TPUFLEX_WORKLOAD_IDENTITY_PROVIDER": (
            "projects/42/locations/global/workloadIdentityPools/tpuflex/providers/github"
        ),
        "TPUFLEX_PREVIEW_SERVICE_ACCOUNT": "tpuflex-preview@shop-ml.iam.gserviceaccount.com",
        "TPUFLEX_DEPLOY_SERVICE_ACCOUNT": "tpuflex-deploy@shop-ml.iam.gserviceaccount.com",
        "PULUMI_BACKEND_URL": "gs://shop-ml-tpuflex-state",
        "TPUFLEX_SECRETS_PROVIDER": (
            "gcpkms://projects/shop-ml/locations/us-east5/keyRings/tpuflex/cryptoKeys/state"
        ),
    }


def test_the_own_state_is_out_of_reach() -> None:
    """Neither identity reads or writes it: it says what an administrator's run deletes."""
    assert NAMES.not_own_state == (
        "!resource.name.startsWith('projects/_/buckets/shop-ml-tpuflex-state/objects/.tpuflex/')"
    )


def test_the_longest_project_still_has_a_bucket() -> None:
    """Ids of projects have at most 30 letters, names of buckets 63."""
    assert len(BootstrapNames("p" * 30, "us-east5").bucket) <= 63


def test_the_roles_are_there() -> None:
    """The bootstrap makes the roles of both identities from the one file."""
    data = roles()

    assert all(data.identities[identity] for identity in ("preview", "deploy"))
