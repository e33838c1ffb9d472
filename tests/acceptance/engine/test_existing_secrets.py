"""Endpoints whose keys are in secrets of the user's own, with the real engine."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml

from tests.acceptance.killed import stack_run
from tests.engine.embedded import Embedded
from tests.engine.libraries import call, command
from tpuflex.cli.down.run import run_down
from tpuflex.deploy.secret_versions import ensure_versions
from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.operate.endpoint_connection import api_key

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

SECRET = "projects/acme-vault/secrets/vllm-key"
KEY = "canary-key-of-the-vault"


def make(embedded: Embedded) -> None:
    """Make the secret with a version, as those who look after it do."""
    body: dict[str, Any] = {"replication": {"automatic": {}}}
    path = "v1/projects/acme-vault/secrets?secretId=vllm-key"
    assert call(embedded, "POST", path, json=body).ok
    payload = {"payload": {"data": base64.b64encode(KEY.encode()).decode()}}
    assert call(embedded, "POST", f"v1/{SECRET}:addVersion", json=payload).ok


def write(embedded: Embedded, number: int) -> None:
    """A stack with that version of it as its API key, and no compiled programs to sign."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:serving"]["compile_cache"] = "none"
    document["config"]["tpuflex:secrets"] = {"api_key": f"{SECRET}/versions/{number}"}
    file.write_text(yaml.safe_dump(document))


def readers(embedded: Embedded) -> list[Any]:
    """The bindings of the secret's policy."""
    path = f"v1/{SECRET}:getIamPolicy?options.requestedPolicyVersion=3"
    bindings: list[Any] = call(embedded, "GET", path).json().get("bindings", [])
    return bindings


def test_a_key_of_the_vault_is_used_and_stays(
    embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    """A version that is missing or disabled is refused; the hosts get the right to read the one
    version and nothing else is made in Secret Manager; a second look finds nothing to change; the
    teardown takes the right away, leaves the secret and names it as kept; the value is nowhere."""
    make(embedded)
    write(embedded, 2)
    with pytest.raises(NotFoundError) as missing:
        ensure_versions(command(embedded)[1], print)
    write(embedded, 1)
    assert call(embedded, "POST", f"v1/{SECRET}/versions/1:disable").ok
    with pytest.raises(ConflictError) as disabled:
        ensure_versions(command(embedded)[1], print)
    assert call(embedded, "POST", f"v1/{SECRET}/versions/1:enable").ok
    invocation, cloud = command(embedded)
    ensure_versions(cloud, print)
    run = stack_run(embedded.root, embedded.engine, embedded.environ)
    run.up()
    bound = readers(embedded)
    again = run.preview(refresh=True)
    state = json.dumps(run.resources())
    capsys.readouterr()
    run_down(invocation, cloud, dry_run=False)
    out = capsys.readouterr()
    down = json.loads(out.out)

    key = "tpuflex:secrets.api_key"
    assert missing.value.message == f"{key}: {SECRET}/versions/2 does not exist"
    assert disabled.value.message == f"{key}: {SECRET}/versions/1 is DISABLED"
    (binding,) = bound
    assert binding["role"] == "roles/secretmanager.secretAccessor"
    assert binding["condition"]["expression"].endswith("/secrets/vllm-key/versions/1'")
    assert (again.changes, again.drift) == ((), ())
    assert down["kept"] == [SECRET]
    assert readers(embedded) == []
    assert api_key(cloud) == KEY
    assert KEY not in state + out.out + out.err
    assert sorted(embedded.remaining()) == ["secrets", "versions"]
