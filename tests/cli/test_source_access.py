"""Which token and which address a command uses for the Hub."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tpuflex.cli.cloud import Cloud
from tpuflex.cli.cloud_environment import google_environment
from tpuflex.cli.source_access import hub_token
from tpuflex.cli.stack import OpenStack
from tpuflex.errors import NotFoundError, ServiceDisabledError, TpuflexError
from tpuflex.settings.secrets import SecretsSettings

IN_SECRET = "hf_of-the-secret"


class Secrets:
    """Secret Manager, with one answer."""

    def __init__(self, answer: str | TpuflexError) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def access(self, version: str) -> str:
        self.asked.append(version)
        if isinstance(self.answer, TpuflexError):
            raise self.answer
        return self.answer


def cloud(
    stack: OpenStack, answer: str | TpuflexError, version: int | None, token: str = ""
) -> tuple[Cloud, Secrets]:
    """A cloud whose secrets answer so, and those secrets."""
    settings = stack.settings.model_copy(
        update={"secrets": SecretsSettings(hf_token_version=version)}
    )
    found, secrets = Cloud(replace(stack, settings=settings), {}, token), Secrets(answer)
    cast("dict[str, object]", found.__dict__)["secrets"] = secrets
    return found, secrets


@pytest.mark.parametrize(
    ("answer", "version", "of_the_shell", "token"),
    [
        (IN_SECRET, 2, "hf_of-the-shell\n", "hf_of-the-shell"),
        (IN_SECRET, 2, "", IN_SECRET),
        (IN_SECRET, None, "", ""),
        (ServiceDisabledError("Secret Manager is off"), 2, "", ""),
    ],
)
def test_the_token(
    stack: OpenStack,
    answer: str | TpuflexError,
    version: int | None,
    of_the_shell: str,
    token: str,
) -> None:
    """M11: HF_TOKEN, else the pinned version of the stack's secret, else none."""
    found, secrets = cloud(stack, answer, version, of_the_shell)

    assert hub_token(found) == token
    if token == IN_SECRET:
        assert [name.rpartition("/secrets/")[2] for name in secrets.asked] == [
            f"{stack.names.secret('hf-token')}/versions/2"
        ]


def test_a_missing_version_says_how_to_add_it(stack: OpenStack) -> None:
    """M11: a pinned version that nobody has put there is named, with the command that adds it."""
    found, _ = cloud(stack, NotFoundError("no such version"), 1)

    with pytest.raises(NotFoundError, match="Version 1 of the token for the Hub") as caught:
        hub_token(found)
    assert "tpuflex secrets put hf-token --stack dev" in caught.value.hint


def test_a_stack_on_google_asks_the_real_hub(tmp_path: Path) -> None:
    """M11: in a shell that points at the embedded cloud, a stack on Google does not take its
    weights from there; a mirror that the user names stays."""
    hub = {"HF_ENDPOINT": "http://127.0.0.1:8470/huggingface"}

    assert "HF_ENDPOINT" not in google_environment({**hub, "TPUFLEX_EMULATOR": "x"}, tmp_path)
    assert google_environment(hub, tmp_path)["HF_ENDPOINT"] == hub["HF_ENDPOINT"]
