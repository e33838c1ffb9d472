"""`tpuflex bootstrap` with the real engine on the embedded cloud."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest
import requests

from tests.acceptance.security.test_p4_two_clones import command, mutations
from tests.engine.embedded import Embedded
from tests.goldens.golden_texts import assert_golden
from tpuflex.cli.project.bootstrap import run_bootstrap
from tpuflex.components.bootstrap_names import BootstrapNames, Repository
from tpuflex.deploy import bootstrap
from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.stack.progress import agree

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

ACME = Repository("acme/chat", 1234, 5678)
NAMES = BootstrapNames("tpuflex-dev", "us-east5")


def plan(embedded: Embedded, capsys: pytest.CaptureFixture[str]) -> str:
    """`tpuflex bootstrap --dry-run`."""
    invocation, cloud = command(embedded)
    capsys.readouterr()
    run_bootstrap(replace(invocation, json=False), cloud, ACME, dry_run=True)
    return capsys.readouterr().out


def make(embedded: Embedded) -> Any:
    """The document of `tpuflex bootstrap`."""
    return bootstrap.bootstrap(command(embedded)[1], ACME, consent=agree).to_json()


def remove(embedded: Embedded, *, with_states: bool = False) -> Any:
    """The document of `tpuflex bootstrap --remove`."""
    _, cloud = command(embedded)
    return bootstrap.remove_bootstrap(cloud, with_states=with_states, consent=agree).to_json()


def call(embedded: Embedded, method: str, path: str, **more: Any) -> Any:
    """A call of the cloud by its owner."""
    token = embedded.environ["GOOGLE_OAUTH_ACCESS_TOKEN"]
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{embedded.cloud.url}/{path}"
    answer = requests.request(method, url, headers=headers, timeout=60, **more)
    answer.raise_for_status()
    return answer.json() if answer.content else {}


def test_made_once_removed_and_made_again(
    embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run makes nothing, so nothing is there to be removed; the first run makes what it
    said, for this repository alone and without a key of an account; the second changes nothing,
    with its state lost as well, because that is kept in the bucket. A bucket with states is not
    removed unasked; the removal leaves what Google never deletes, and a bootstrap after it takes
    that up again."""
    planned = plan(embedded, capsys)
    assert_golden("bootstrap/plan.txt", planned)
    after_dry = embedded.remaining()
    with pytest.raises(NotFoundError, match="has no bootstrap"):
        remove(embedded)
    made = make(embedded)
    bucket = call(embedded, "GET", f"storage/v1/b/{NAMES.bucket}")
    grants = call(
        embedded, "GET", f"storage/v1/b/{NAMES.bucket}/iam?optionsRequestedPolicyVersion=3"
    )
    provider = call(embedded, "GET", f"v1/{NAMES.provider}")
    policy = call(
        embedded, "POST", f"v1/projects/-/serviceAccounts/{NAMES.email('deploy')}:getIamPolicy"
    )
    shutil.rmtree(embedded.root / ".tpuflex" / "bootstrap")
    before = mutations(embedded)
    again = make(embedded)
    changed = mutations(embedded) - before
    call(
        embedded,
        "POST",
        f"upload/storage/v1/b/{NAMES.bucket}/o",
        params={"uploadType": "media", "name": ".pulumi/stacks/shop/prod.json"},
        data=b"{}",
    )
    with pytest.raises(ConflictError, match="holds the states of shop/prod"):
        remove(embedded)
    removed = remove(embedded, with_states=True)
    left = set(embedded.remaining())
    role = call(embedded, "GET", "v1/projects/tpuflex-dev/roles/tpuflexDeploy")
    with pytest.raises(NotFoundError):
        remove(embedded)
    restored = make(embedded)

    assert after_dry == []
    assert {each["operation"] for each in made["changes"]} == {"create"}
    assert all(f"  {each['name']}  " in planned for each in made["changes"])
    assert bucket["versioning"]["enabled"] is True
    assert bucket["iamConfiguration"]["publicAccessPrevention"] == "enforced"
    conditions = {
        member: binding.get("condition", {}).get("expression")
        for binding in grants["bindings"]
        for member in binding["members"]
    }
    assert conditions[f"serviceAccount:{NAMES.email('deploy')}"] == NAMES.not_own_state
    assert conditions[f"serviceAccount:{NAMES.email('preview')}"] == NAMES.not_own_state
    assert provider["attributeCondition"] == ACME.condition
    assert provider["attributeMapping"]["attribute.deploys"] == ACME.deploys
    assert policy["bindings"] == [
        {
            "role": "roles/iam.workloadIdentityUser",
            "members": [
                "principalSet://iam.googleapis.com/"
                f"{provider['name'].partition('/providers/')[0]}/attribute.deploys/yes"
            ],
        }
    ]
    assert made["variables"]["TPUFLEX_WORKLOAD_IDENTITY_PROVIDER"] == provider["name"]
    assert (again["changed"], again["changes"], changed) == (False, [], 0)
    assert removed["states"] == ["shop/prod"]
    assert left - {"roles"} == {"keyRings", "cryptoKeys"}
    assert role["deleted"] is True
    operations = {each["name"]: each["operation"] for each in restored["changes"]}
    assert operations["key-ring"] == operations["key"] == "import"
    assert sorted(restored["restored"]) == sorted([NAMES.pool, NAMES.provider])
