"""Every gcloud command that is printed is one that gcloud understands."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from tests.unit.gcloud_parsers import gcloud_verdicts, recorded_verdicts
from tpuflex import gcloud_commands

ROOT = Path(__file__).parents[2]
KEY = "projects/acme-keys/locations/us-east5/keyRings/team/cryptoKeys/weights"
NODE = "projects/my-project-id/locations/us-east5-a/nodes/tpuflex-dev-vllm-g1"

MADE = (
    gcloud_commands.log_in(),
    gcloud_commands.set_quota_project("my-project-id"),
    gcloud_commands.enabled_services("my-project-id"),
    gcloud_commands.billing_accounts(),
    gcloud_commands.delete_firewall_rules("my-project-id", "allow-scanner"),
    gcloud_commands.show_project(),
    gcloud_commands.install("alpha"),
    gcloud_commands.ssh(NODE),
    gcloud_commands.on_host(NODE, "sudo docker ps", terminal=True),
    gcloud_commands.program_on_host(NODE, "sudo docker run --rm --interactive IMAGE"),
    gcloud_commands.tunnel(NODE, local_port=9000, address="10.0.0.2", port=8000),
    gcloud_commands.held_tunnel(NODE, local_port=9000, address="10.0.0.2", port=8000),
    gcloud_commands.log_in_gcloud(),
    gcloud_commands.let_through_iap("my-project-id"),
    gcloud_commands.let_log_in("my-project-id"),
    gcloud_commands.host_log(NODE, lines=50),
    gcloud_commands.host_log(NODE, lines=50, follow=True),
    gcloud_commands.server_log(NODE, "vllm", lines=50, since="2026-11-28T03:00:00Z", follow=True),
    gcloud_commands.create_mirror("dockerhub", upstream="docker-hub", location="us-east5"),
    gcloud_commands.create_mirror(
        "mirror", upstream="https://ghcr.io", location="us-east5", project="my-project-id"
    ),
    gcloud_commands.enable_services("my-project-id", "tpu.googleapis.com", "dns.googleapis.com"),
    gcloud_commands.enable_private_access("projects/my-host/regions/us-east5/subnetworks/serving"),
    gcloud_commands.create_bucket("gs://acme-models", "us-east5"),
    gcloud_commands.make_private("gs://acme-models"),
    gcloud_commands.remove_bucket("gs://acme-models"),
    gcloud_commands.no_requester_pays("gs://acme-models"),
    gcloud_commands.end_retention("gs://acme-models"),
    gcloud_commands.grant_on_bucket("gs://acme-models", "roles/storage.objectUser", "user:a@b.com"),
    gcloud_commands.grant("my-project-id", "roles/tpu.admin", "user:you@example.com"),
    gcloud_commands.grant_on_secret("my-project-id", "s", "roles/viewer", "user:you@example.com"),
    gcloud_commands.grant_on_account(
        "my-project-id", "a@my-project-id.iam.gserviceaccount.com", "roles/viewer", "user:y@x.com"
    ),
    gcloud_commands.enable_account("my-project-id", "a@my-project-id.iam.gserviceaccount.com"),
    gcloud_commands.grant_on_key(KEY, "roles/cloudkms.viewer", "user:you@example.com"),
    gcloud_commands.describe_key(KEY),
    gcloud_commands.show_storage_agent("my-project-id"),
    gcloud_commands.create_agent("my-project-id", "secretmanager.googleapis.com"),
    gcloud_commands.list_channels("my-project-id"),
    gcloud_commands.link_billing("my-project-id", "000000-000000-000000"),
    gcloud_commands.describe_project("my-project-id"),
    gcloud_commands.undelete_project("my-project-id"),
    gcloud_commands.do_not_enforce("compute.requireShieldedVm", "my-project-id"),
    gcloud_commands.show_policy("compute.requireShieldedVm", "my-project-id"),
    gcloud_commands.show_accelerators("my-project-id", "us-east5-a"),
    gcloud_commands.list_objects("gs://my-state/.pulumi/locks/**"),
)

#: What tpuflex printed until 2026-11-22, and a flag that is nobody's.
WRONG = (
    "gcloud compute tpus tpu-vm ssh n --zone us-east5-a --tunnel-through-iap",
    "gcloud alpha compute tpus tpu-vm ssh n --zone=us-east5-a --tunnel-through-aip",
)

_COMMAND = re.compile(
    r"gcloud (?:alpha|beta|artifacts|auth|billing|components|compute|config|iam|projects"
    r"|resource-manager|secrets|services|storage)\b"
)
_IN_TEXT = re.compile(
    r"^[ #$]*(gcloud [a-z].*)$|`(gcloud [^`…]+)`|\$\((gcloud [^()]+)\)", re.MULTILINE
)


def written() -> dict[str, str]:
    """The gcloud commands in what users read: documents and stack files, by command."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "stacks").glob("*.yaml")]
    found: dict[str, str] = {}
    for file in files:
        text = re.sub(r"\\\n[ #]*", "", file.read_text())
        for match in _IN_TEXT.finditer(text):
            found.setdefault(match[1] or match[2] or match[3], file.name)
    return found


def commands() -> list[tuple[str, ...]]:
    return [
        *(command.words for command in MADE),
        *(tuple(shlex.split(command, comments=True)) for command in written()),
    ]


def test_the_recorded_grammar_takes_every_printed_command() -> None:
    """Every gcloud command that is printed or documented fits the recorded grammar."""
    assert len(written()) > 0
    assert [
        (shlex.join(words), why)
        for words, why in zip(commands(), recorded_verdicts(commands()), strict=True)
        if why
    ] == []


@pytest.mark.parametrize("command", WRONG)
def test_the_recorded_grammar_refuses_what_gcloud_refuses(command: str) -> None:
    """The GA track has no --tunnel-through-iap, and the recorded grammar knows it."""
    (why,) = recorded_verdicts([tuple(shlex.split(command))])
    assert "unrecognized arguments: --tunnel-through" in why


@pytest.mark.gcloud
def test_gclouds_own_parser_agrees(tmp_path: Path) -> None:
    """Gcloud's own parser takes every printed command, and refuses the wrong ones."""
    wrong = [tuple(shlex.split(command)) for command in WRONG]
    mended = [words[:-1] for words in wrong]  # it is the last word that is wrong

    verdicts = gcloud_verdicts([*commands(), *mended, *wrong], tmp_path)

    if verdicts is None:
        pytest.skip("gcloud is not on PATH")
    right = [*commands(), *mended]
    refused = [pair for pair in zip(right, verdicts[: len(right)], strict=True) if pair[1]]
    assert refused == []
    assert [bool(why) for why in verdicts[len(right) :]] == [True, True]


def test_one_module_spells_gcloud_commands() -> None:
    """No other module of tpuflex spells a gcloud command in a text that it may print; what gcloud
    itself has said is recorded beside the patterns that read it."""
    spelt = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value[:60]}"
        for path in (ROOT / "infra" / "tpuflex").rglob("*.py")
        if path.name not in ("gcloud_commands.py", "known_messages.py")
        for node in _constants(ast.parse(path.read_text()))
        if isinstance(node.value, str) and _COMMAND.search(node.value)
    ]
    assert spelt == []


def test_alpha_is_named_where_it_is_needed() -> None:
    """A command of the alpha track says which component it needs, others say nothing."""
    assert gcloud_commands.ssh(NODE).hint == (
        "(needs gcloud's component: gcloud components install alpha)"
    )
    assert gcloud_commands.log_in().hint == ""


def test_a_log_command_survives_the_shell() -> None:
    """What is printed, typed in a shell, gives the same words."""
    command = gcloud_commands.host_log(NODE, lines=7, follow=True)

    assert tuple(shlex.split(str(command))) == command.words
    assert "sudo tail -n 7 -F /var/log/tpuflex/startup.log" in command.words


@pytest.mark.parametrize("name", ["", "n", "projects/p/locations/z/nodes/", f"{NODE}/x"])
def test_only_full_names_are_nodes(name: str) -> None:
    """A name that is not a node's full name is a bug of the caller, and makes no command."""
    with pytest.raises(ValueError, match="not the full name of a node"):
        gcloud_commands.ssh(name)


def _constants(tree: ast.Module) -> list[ast.Constant]:
    """The constants of a module that are not docstrings."""
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and id(node) not in statements
    ]
