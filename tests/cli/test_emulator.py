"""`tpuflex emulator`: strictness, and the kinds of credentials."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from embedded_cloud.core.strictness import LENIENT, CredentialKind, Strictness
from embedded_cloud.services.tokens.credentials import KINDS
from embedded_cloud.strict.book import STRICT
from tests.cli.typing import TypeIn
from tpuflex.google.credentials import Kind, describe
from tpuflex.project import open_project
from tpuflex.stack.connection import connect
from tpuflex.stack.emulator import CREDENTIAL_KINDS
from tpuflex.stack.stack import read_stack


def test_strictness_is_shown_set_and_kept_over_a_reset(type_in: TypeIn) -> None:
    """Strict from the start, changed in one area, lenient again by name."""

    def shown(*words: str) -> Strictness:
        typed = type_in("emulator", "strictness", *words)
        assert typed.code == 0, typed.err
        return Strictness.from_json(json.loads(typed.out))

    assert type_in("emulator", "start", "--port", "0", "--strict").code == 0
    try:
        assert shown() == STRICT
        changed = shown('{"apis": {"answers_after_s": 1}}')
        assert changed == STRICT.merged({"apis": {"answers_after_s": 1}})
        assert type_in("emulator", "reset", "--yes").code == 0
        assert shown() == STRICT
        assert shown("lenient") == LENIENT
        wrong = type_in("emulator", "strictness", '{"apis": {"enforce": 1}}')
        assert wrong.code != 0
        assert "apis.enforce: Unexpected keyword" in wrong.err
    finally:
        type_in("emulator", "stop")


def test_how_strict_it_is_is_said_and_ends_with_it(type_in: TypeIn) -> None:
    """`start --strict` changes one that runs, and says so, as `status`, `reset` and the first line
    of a rehearsal do; `stop` takes it back."""

    def said(*words: str) -> str:
        typed = type_in("emulator", *words)
        assert typed.code == 0, typed.err
        return typed.out if words[0] != "env" else typed.err.splitlines()[0]

    assert said("start", "--port", "0").endswith("; it is lenient.\n")
    try:
        assert "which is lenient. To have it refuse and delay as Google does: " in said(
            "env", "--rehearse"
        )
        assert "already running" in (again := said("start", "--strict"))
        assert again.endswith("; it is strict.\n")
        assert type_in("emulator", "status", "--json").document["strictness"] == "strict"
        assert said("reset", "--yes") == "The embedded cloud is empty; it is strict.\n"
        assert said("env", "--rehearse").endswith("which is strict.")
        said("strictness", '{"iam": {"enforced": true}}')
        assert "it is strict but for iam." in said("status")
        said("stop")
        assert said("start", "--port", "0").endswith("; it is lenient.\n")
    finally:
        type_in("emulator", "stop")


@pytest.mark.parametrize("change", ["harsh", "[1]", "{'apis': 1}"])
def test_what_is_no_preset_and_no_json_is_refused(type_in: TypeIn, change: str) -> None:
    """Exit code 2 with an example, before anything is asked."""
    typed = type_in("emulator", "strictness", change)
    assert typed.code == 2
    assert "JSON object" in typed.err or '{"apis": {"enforced": true}}' in typed.err


def test_the_kinds_are_the_embedded_clouds() -> None:
    """The command line offers what the cloud knows, and so does its strictness."""
    assert get_args(CredentialKind) == CREDENTIAL_KINDS == ("token", *KINDS)


def test_credentials_of_each_kind(type_in: TypeIn, project: Path) -> None:
    """4: each kind as Google's clients find it; tpuflex uses what the shell, or else the
    strictness, says; what there is not is refused."""
    stack = read_stack(open_project(project, {}), "dev")

    def environ_of(**shell: str) -> Mapping[str, str]:
        shell = {"PATH": "/bin", "HOME": str(project), **shell}
        return connect(stack, shell, start=False).environ

    def used(**shell: str) -> Kind:
        return describe(environ_of(**shell)).kind

    assert type_in("emulator", "start", "--port", "0").code == 0
    try:
        for kind in CREDENTIAL_KINDS:
            shown = type_in("emulator", "env", "--credentials", kind, "--json").document
            assert ("GOOGLE_OAUTH_ACCESS_TOKEN" in shown) == (kind == "token")
            assert ("GCE_METADATA_HOST" in shown) == (kind == "metadata")
            file = shown.get("GOOGLE_APPLICATION_CREDENTIALS")
            assert (file is None) == (kind in ("token", "metadata"))
            if file is not None:
                assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
            assert shown["TPUFLEX_EMULATOR_CREDENTIALS"] == kind
        assert used() is Kind.ACCESS_TOKEN
        own = dict.fromkeys(("GOOGLE_CREDENTIALS", "GCLOUD_KEYFILE_JSON", "GCE_METADATA_IP"), "x")
        assert not own.keys() & environ_of(**own).keys()
        assert used(TPUFLEX_EMULATOR_CREDENTIALS="external") is Kind.EXTERNAL_ACCOUNT
        assert type_in("emulator", "strictness", '{"tokens": {"credentials": "user"}}').code == 0
        assert used() is Kind.USER
        assert used(TPUFLEX_EMULATOR_CREDENTIALS="token") is Kind.ACCESS_TOKEN
        wrong = type_in("status", "-s", "dev", TPUFLEX_EMULATOR_CREDENTIALS="magic")
        assert wrong.code == 9
        assert "TPUFLEX_EMULATOR_CREDENTIALS=magic: there are no such credentials" in wrong.err
        assert "one of token, user," in wrong.err
    finally:
        type_in("emulator", "stop")


def test_another_kind_is_a_wrong_use(type_in: TypeIn) -> None:
    """Exit code 2, with the kinds."""
    typed = type_in("emulator", "env", "--credentials", "magic")

    assert typed.code == 2
    assert "'token', 'user', 'service-account'" in typed.err
