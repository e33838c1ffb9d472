"""P4: what only looks like ours, made by hand as in the security review, is neither deleted nor
taken for ours."""

from __future__ import annotations

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import Api
from tests.security.forged import (
    NAMES,
    OURS,
    REGION,
    STATE,
    client_of,
    cloud,
    left_behind,
    sweep,
)
from tpuflex.inventory.inventory import Scope, take_inventory
from tpuflex.naming import LABEL_OWNER
from tpuflex.operate.sweep import Disposition

__all__ = ["cloud"]


def test_a_bucket_with_one_label(cloud: EmbeddedCloud) -> None:
    """S5: the owner marker is a public hash; on somebody's bucket it leads to nothing."""
    body = {"name": "payroll", "location": REGION, "labels": {LABEL_OWNER: NAMES.owner}}
    assert Api(cloud.url).call("POST", "storage/v1/b", body=body, project=OURS).ok

    (found,) = left_behind(client_of(cloud.url))

    assert found.disposition is Disposition.FOREIGN
    assert "its name is none that tpuflex gives" in found.reason
    assert sweep(client_of(cloud.url), [found]) == ()
    assert Api(cloud.url).call("GET", "storage/v1/b/payroll").ok


def test_an_account_that_quotes_the_description(cloud: EmbeddedCloud) -> None:
    """S5: only a description that is nothing else marks; a sentence around it does not."""
    text = f"Not {NAMES.description(STATE)}, but payroll's"
    body = {"accountId": "payroll", "serviceAccount": {"description": text}}
    assert Api(cloud.url).call("POST", f"v1/projects/{OURS}/serviceAccounts", body=body).ok

    assert left_behind(client_of(cloud.url)) == []


def test_a_bucket_of_our_name_in_our_project_is_listed_by_a_teardown(cloud: EmbeddedCloud) -> None:
    """S5: what only has our name is listed by `down`, apart from what is ours."""
    name = NAMES.bucket(OURS, REGION)
    body = {"name": name, "location": REGION}
    assert Api(cloud.url).call("POST", "storage/v1/b", body=body, project=OURS).ok
    scope = Scope(OURS, (f"{REGION}-a",), NAMES, frozenset({STATE}))

    found = take_inventory(scope, client_of(cloud.url))

    assert found.ours == ()
    assert [(item.name, item.foreign) for item in found.foreign] == [
        (
            name,
            "it has no owner marker; it carries no state id: made by hand",
        )
    ]
