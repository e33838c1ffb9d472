"""An image in the library, from its push to a server that runs it: typed in a rehearsal, whose
hosts reach no registry at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.engine.readme_shell import Shell, rehearsed, write_weights
from tests.images import small_image
from tpuflex.cli.daemon import Daemon
from tpuflex.engine.find import Engine

pytestmark = [pytest.mark.engine, pytest.mark.timeout(580)]

PROJECT = "acme-prod-1"
STACK = "tpuflex --stack first-proof"
IMAGE = small_image()
PREFIX = f"images/sha256/{IMAGE.digest[7:]}"


@pytest.fixture
def shell(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Shell]:
    """A shell in which a stack on Google is rehearsed."""
    with rehearsed(tmp_path, pulumi_engine, PROJECT) as found:
        yield found


def change(shell: Shell, **serving: object) -> None:
    """Change the stack file: what serves, and that it keeps its weights in the library."""
    file = shell.root / "stacks" / "Pulumi.first-proof.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:model"]["weights"]["bucket"] = "library"
    document["config"]["tpuflex:serving"] |= serving
    file.write_text(yaml.safe_dump(document))


def refused(shell: Shell, line: str, code: int) -> str:
    """What a command says that ends with this code."""
    return shell.type(f"{{ {line} 2>&1; }}; [[ $? == {code} ]]")


def test_hosts_without_a_way_out_serve_an_image_of_the_library(shell: Shell) -> None:
    """The push makes the library and prints what to write; what would not work is refused before
    chips are asked for; the host loads exactly that image and asks no registry; it cannot be
    removed under the endpoint, and afterwards can. Nothing is left but what was pushed."""
    home = shell.root / ".tpuflex"
    write_weights(shell.root / "models" / "gemma-4-E4B-it")
    IMAGE.layout(shell.root / "image")
    change(shell, image=f"vllm/vllm-tpu@{IMAGE.digest}", image_source="library")
    unpinned = refused(shell, f"{STACK} up --yes", 5)
    said = shell.type(f"{STACK} library image push --layout image --yes")
    (sha256,) = re.findall(r"image_manifest_sha256: ([0-9a-f]{64})", said)
    again = json.loads(shell.type(f"{STACK} library image push --layout image --yes --json"))
    change(shell, image_manifest_sha256=sha256)

    shell.type(f"{STACK} up --yes")
    status = json.loads(shell.type(f"{STACK} status --no-tunnel --json"))
    log = shell.type(f"{STACK} logs")
    shown = json.loads(shell.type(f"{STACK} library status --json"))
    used = refused(shell, f"{STACK} weights rm {PREFIX} --yes", 1)
    calls = Daemon(home).call("GET", "history")["calls"]
    down = shell.type(f"{STACK} down --yes")
    shell.type(f"{STACK} weights rm {PREFIX} --yes")
    after = json.loads(shell.type(f"{STACK} library status --json"))

    assert "image_manifest_sha256" in unpinned
    assert "library image push" in unpinned
    assert (again["sent"], again["manifest_sha256"]) == ([], sha256)
    assert status["ready"] is True
    assert "loading the image" in log
    assert re.search(rf"Kept in the library: the image gs://\S+/{PREFIX}, 0\.00 GiB, ", down)
    assert [each for each in calls if each["path"].startswith("/registry/")] == []
    (bucket,) = shown["buckets"]
    (image,) = bucket["images"]
    assert (image["digest"], image["in_use"]) == (IMAGE.digest, True)
    assert {PREFIX, "models/google-gemma-4-e4b-it/1"} <= {
        each["below"] for each in bucket["readers"] if each["endpoint"]
    }
    assert "boots with it" in used
    (bucket,) = after["buckets"]
    assert (bucket["images"], len(bucket["models"])) == ([], 1)
    assert [each for each in bucket["readers"] if each["endpoint"]] == []
