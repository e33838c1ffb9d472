"""`tpuflex secrets put` on a stack whose stack file moves the home of its secrets."""

from __future__ import annotations

import pytest
import yaml

from tests.engine.embedded import Embedded
from tests.engine.libraries import command
from tpuflex.deploy.secrets import ensure_containers
from tpuflex.errors import ConflictError
from tpuflex.naming import API_KEY, METRICS_KEY
from tpuflex.stack.progress import agree

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def write(embedded: Embedded, zone: str, **secrets: int) -> None:
    """The dev stack in one zone, with these versions of its secrets."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    config = document["config"]
    config["tpuflex:slice"] |= {"zones": [zone]}
    config["tpuflex:secrets"] = secrets
    file.write_text(yaml.safe_dump(document))


def test_a_secret_that_is_added_makes_no_other_anew(embedded: Embedded) -> None:
    """Where the home has moved the engine would delete the API key's secret with its values, and
    make it anew beside the one that is added, without a question: it is refused, and nothing is
    changed. Without another home the secret is added beside it."""
    write(embedded, "us-east5-a", api_key_version=1)
    _, cloud = command(embedded)
    ensure_containers(cloud, consent=agree)
    key = cloud.secrets.ensure_version(cloud.secret(API_KEY), 1)

    write(embedded, "europe-west4-a", api_key_version=1)
    ensure_containers(command(embedded)[1], consent=agree)  # there is nothing to add
    write(embedded, "europe-west4-a", api_key_version=1, metrics_key_version=1)
    with pytest.raises(ConflictError, match=r"vllm-api-key, .* would be made") as refused:
        ensure_containers(command(embedded)[1], consent=agree)
    assert cloud.secrets.list_versions(cloud.secret(API_KEY)) == (key,)
    assert "until the home has moved" in str(refused.value.hint)

    write(embedded, "us-east5-a", api_key_version=1, metrics_key_version=1)
    ensure_containers(command(embedded)[1], consent=agree)
    assert cloud.secrets.list_versions(cloud.secret(METRICS_KEY)) == ()
    assert cloud.secrets.list_versions(cloud.secret(API_KEY)) == (key,)
