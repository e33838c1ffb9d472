"""The rules of policy under the engine: what `up` refuses, and plain Pulumi by the pack."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pulumi
import pytest
from pulumi_gcp import compute, storage

from tests.acceptance.environments import environment
from tests.acceptance.plain_pulumi import plain_pulumi
from tests.acceptance.security.test_p4_two_clones import command, mutations
from tests.engine.embedded import Embedded
from tpuflex.cli.up.run import run_up
from tpuflex.deploy.stack_run import StackRun
from tpuflex.errors import PolicyError
from tpuflex.policy_pack import DIRECTORY
from tpuflex.program import main
from tpuflex.stack.connection import Connection

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

#: Each is as narrow as a stack file may write it; together they are a /7.
HALVES = ("8.0.0.0/8", "9.0.0.0/8")
WAIVER = """\
  tpuflex:waivers:
    - {rule: no-open-ingress, resource: open, reason: a test, until: "2999-12-31"}
"""
ANALYZER = """\
#!/bin/sh
exec "{python}" -u -m pulumi.policy "$1" "$2"
"""


def test_up_refuses_before_anything_is_made(embedded: Embedded) -> None:
    """Ranges that only together are too wide are found in the plan; `up` ends with 11, and has
    made nothing but enabled APIs."""
    invocation, cloud = command(embedded)
    settings = cloud.stack.settings
    network = settings.network.model_copy(update={"allowed_cidrs": HALVES})
    stack = replace(cloud.stack, settings=settings.model_copy(update={"network": network}))
    open_cloud = Connection(stack, cloud.environ)

    report = StackRun(open_cloud).plan().policy
    before = mutations(embedded)
    with pytest.raises(PolicyError, match=r"vllm-network-serving \(no-open-ingress\)") as raised:
        run_up(invocation, open_cloud)

    assert [str(finding.rule.id) for finding in report.findings] == ["no-open-ingress"]
    assert raised.value.exit_code == 11
    enabled = [
        str(call.get("path"))
        for call in embedded.cloud.cloud.history.entries()[before:]
        if call.get("method") in {"POST", "PUT", "PATCH", "DELETE"}
    ]
    assert all("services:batchEnable" in path or ":getIamPolicy" in path for path in enabled)
    assert embedded.remaining() == []


def program() -> None:
    """The shipped program, and what a user adds beside it."""
    main()
    compute.Firewall(
        "open",
        project="tpuflex-dev",
        network="default",
        source_ranges=["0.0.0.0/1", "128.0.0.0/1"],
        target_tags=["web"],
        allows=[compute.FirewallAllowArgs(protocol="tcp")],
    )
    storage.Bucket(
        "logs",
        project="tpuflex-dev",
        location="US",
        uniform_bucket_level_access=True,
        public_access_prevention=pulumi.Output.from_input("inherited"),
    )


@pytest.mark.pulumi_feature("policy pack")
def test_the_pack_under_the_engine(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`pulumi preview --policy-pack`: what a user's program adds is refused, what is ours passes,
    what the stack file waives passes, too."""
    analyzer = tmp_path / "bin" / "pulumi-analyzer-policy-python"
    analyzer.parent.mkdir()
    analyzer.write_text(ANALYZER.format(python=environment("policy-pack") / "python"))
    analyzer.chmod(0o755)
    environ = {**embedded.environ, "PATH": f"{analyzer.parent}:{embedded.environ['PATH']}"}
    for name in list(os.environ):
        if name.startswith(("CLOUDSDK_", "GOOGLE_", "PULUMI_", "TPUFLEX_")):
            monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    preview = ("preview", "--policy-pack", str(DIRECTORY))

    with plain_pulumi(embedded.engine.path, embedded.root, environ, program) as pulumi_command:
        pulumi_command("stack", "init", "dev")
        refused = pulumi_command(*preview, check=False)
        file = embedded.root / "stacks" / "Pulumi.dev.yaml"
        file.write_text(file.read_text().replace("config:\n", f"config:\n{WAIVER}"))
        waived = pulumi_command(*preview, check=False)

    assert said(refused.stdout) == {
        ("mandatory", "bucket-region", "logs"),
        ("mandatory", "no-open-ingress", "open"),
        ("mandatory", "private-bucket", "logs"),
        ("advisory", "owner-marker-advisory", "logs"),
        ("advisory", "owner-marker-advisory", "open"),
    }
    assert said(waived.stdout) == said(refused.stdout) - {("mandatory", "no-open-ingress", "open")}
    assert refused.returncode != 0
    assert embedded.remaining() == []


def said(shown: str) -> set[tuple[str, str, str]]:
    """Level, policy and resource of each violation that the engine shows."""
    lines = (line.split() for line in shown.splitlines() if line.strip().startswith("- ["))
    return {(words[1].strip("[]"), words[2], words[-1].strip(")")) for words in lines}
