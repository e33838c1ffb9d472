"""`weights hash` of a model of a Hub or in a bucket, and which token and address are used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tests.cli.typing import TypeIn
from tests.hub_models import MODEL, TOKEN, put_model, safetensors
from tpuflex.errors import NotFoundError, ServiceDisabledError, TpuflexError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.settings.secrets import SecretsSettings
from tpuflex.stack.connection import Connection
from tpuflex.stack.environment import google_environment
from tpuflex.stack.stack import Stack
from tpuflex.weights.source import hub_token

COMMIT = "9aa23b6a9864f1dcf33865104cc11b813f1b2ff0"
ADVICE = (
    "Set HF_TOKEN to a token that may read it (https://huggingface.co/settings/tokens), or keep one"
    " in Secret Manager: tpuflex:secrets.hf_token_version: 1 in the stack file, then `tpuflex"
    " secrets put hf-token`.\n"
)
#: Source, token, exit code, and all that is printed for people; the Hub's other refusals:
#: tests/weights/test_hub.py.
REFUSALS = (
    (
        f"hf://{MODEL}",
        "",
        6,
        f"Error: hf://{MODEL}@main is gated, and there is no token for the Hub\n"
        f"Accept the terms on https://huggingface.co/{MODEL}. {ADVICE}",
    ),
    (
        "hf://acme",
        TOKEN,
        5,
        "Error: Pulumi.dev.yaml has 1 problem:\n"
        "  tpuflex:model.weights.source: 'hf://acme' does not name a model of the Hugging Face Hub"
        " (line 21). Write hf://OWNER/NAME@COMMIT, with the 40 digits of a commit, or a branch or"
        " tag.\n"
        "More: tpuflex docs settings#modelweights\n",
    ),
)


@pytest.fixture
def hub(type_in: TypeIn, project: Path) -> Iterator[Path]:
    """The running embedded cloud's directory, whose Hub has a gated model."""
    assert type_in("emulator", "start", "--port", "0").code == 0
    try:
        directory = project / ".tpuflex" / "emulator"
        (put_model(directory) / ".gated").write_text(TOKEN)
        yield directory
    finally:
        type_in("emulator", "stop")


def write_source(project: Path, source: str) -> None:
    """Let the dev stack take its weights from ``source``."""
    file = project / "stacks" / "Pulumi.dev.yaml"
    file.write_text(re.sub(r"source: .*", f"source: {source}", file.read_text()))


def test_a_model_of_the_hub(type_in: TypeIn, project: Path, hub: Path) -> None:
    """A gated model is fetched with HF_TOKEN, its commit is printed, and what is refused ends
    with text, hint and the exit code of its kind; nothing names the token."""
    del hub
    for source, token, code, printed in REFUSALS:
        write_source(project, source)
        typed = type_in("weights", "hash", "-s", "dev", HF_TOKEN=token)

        assert (typed.code, typed.out) == (code, "")
        assert typed.err == printed
    assert not (project / ".tpuflex" / "models").exists()

    write_source(project, f"hf://{MODEL}")
    typed = type_in("weights", "hash", "-s", "dev", HF_TOKEN=TOKEN)

    models = project / ".tpuflex" / "models"
    assert typed.code == 0
    first, second = typed.err.splitlines()[:2]
    assert first == (
        f"hub: the default branch of {MODEL} is hf://{MODEL}@{COMMIT}. To stay with it, write that"
        " to tpuflex:model.weights.source"
    )
    assert re.fullmatch(
        rf"weights: 4 files, 6 MB, of hf://{MODEL}@{COMMIT}, two at a time through"
        rf" {models}/fetching-[0-9a-f]+",
        second,
    )
    left_out = (
        "weights: left out, as no part of what is served: original/consolidated.pth,"
        " pytorch_model.bin\n"
    )
    assert typed.err.splitlines(keepends=True)[2] == left_out
    assert re.fullmatch(r"manifest_sha256: [0-9a-f]{64}\n", typed.out)
    assert list(models.iterdir()) == []

    write_source(project, f"hf://{MODEL}@{COMMIT}")
    again = type_in("weights", "hash", "-s", "dev", HF_TOKEN=TOKEN)
    assert (again.code, again.out, again.err) == (0, typed.out, left_out)


def test_a_hub_that_limits_requests(type_in: TypeIn, project: Path, hub: Path) -> None:
    """A Hub that still limits requests after its own waits ends the command with 1, and the
    user knows when to come back; then the same command fetches the model."""
    limited = hub / "hub" / MODEL / ".limited"
    limited.write_text("55")
    write_source(project, f"hf://{MODEL}")
    # By a clock on which four waits of a minute pass at once.
    fast = {"TPUFLEX_TIME_SPEED": "100000", "HF_TOKEN": TOKEN}
    typed = type_in("weights", "hash", "-s", "dev", **fast)

    assert (typed.code, typed.out) == (1, "")
    assert typed.err == (
        f"Error: hf://{MODEL}@main: the Hub limits how many requests you make, and is still doing"
        " so\nRun it again in 55 s: it goes on where it stopped.\n"
    )
    assert not (project / ".tpuflex" / "models").exists()

    limited.unlink()
    assert type_in("weights", "hash", "-s", "dev", **fast).code == 0


PLACE = "gs://acme-models/team/tiny"
GOLDENS = Path(__file__).parents[1] / "goldens" / "stacks"


@pytest.fixture
def bucket(type_in: TypeIn) -> Iterator[None]:
    """A bucket of the running embedded cloud with a model."""
    assert type_in("emulator", "start", "--port", "0").code == 0
    try:
        found = {str(k): str(v) for k, v in type_in("emulator", "env", "--json").document.items()}
        made = storage_bucket("acme-models", project="acme", environ=found)
        made.create(location="us-east5")
        files = {
            "config.json": b"{}",
            "model.safetensors": safetensors(),
            "tokenizer.json": b"{}",
            "pytorch_model.bin": b"a pickle",
            "pickles/pytorch_model.bin": b"a pickle",
        }
        for name, content in files.items():
            made.blob(f"team/tiny/{name}").upload_from_string(content)
        yield
    finally:
        type_in("emulator", "stop")


@pytest.mark.usefixtures("bucket")
def test_a_model_in_a_bucket(type_in: TypeIn, project: Path) -> None:
    """A model in a bucket is fetched once; what is none is refused with text, hint and the code of
    its kind, before anything is fetched; other refusals: tests/weights/test_bucket_models.py."""
    write_source(project, f"{PLACE}/pickles")
    typed = type_in("weights", "hash", "-s", "dev")
    assert (typed.code, typed.out, typed.err) == (
        7,
        "",
        f"Error: {PLACE}/pickles cannot be served:\n  config.json: missing\n"
        "  *.safetensors: missing, and vLLM on TPU loads no other weights\n"
        "  pytorch_model.bin: a pickle, which runs code while it is read\n"
        "Upload what is missing or damaged again, or name the prefix below which config.json and"
        " the *.safetensors files lie: gs://BUCKET/PREFIX.\n",
    )
    kept = json.loads((GOLDENS / "dev.boot.json").read_text())["weights"]
    own = f"gs://{kept['bucket']}/{kept['prefix']}"
    write_source(project, own)
    typed = type_in("weights", "hash", "-s", "dev")
    assert typed.code == 5
    assert f"weights.source: it is {own}, where the stack keeps its weights" in typed.err
    assert not (project / ".tpuflex" / "models").exists()

    write_source(project, PLACE)
    typed = type_in("weights", "hash", "-s", "dev")
    assert typed.code == 0
    assert re.fullmatch(
        rf"weights: 3 files, \d+ MB, of {PLACE}, two at a time through"
        rf" {project}/\.tpuflex/models/fetching-[0-9a-f]+",
        typed.err.splitlines()[0],
    )
    left_out = (
        "weights: left out, as no part of what is served: pickles/pytorch_model.bin,"
        " pytorch_model.bin\n"
    )
    assert typed.err.splitlines(keepends=True)[1] == left_out
    again = type_in("weights", "hash", "-s", "dev")
    assert (again.code, again.out, again.err) == (0, typed.out, left_out)


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
    stack: Stack, answer: str | TpuflexError, version: int | None, token: str = ""
) -> tuple[Connection, Secrets]:
    """A cloud whose secrets answer so, and those secrets."""
    settings = stack.settings.model_copy(
        update={"secrets": SecretsSettings(hf_token_version=version)}
    )
    found, secrets = Connection(replace(stack, settings=settings), {}, token), Secrets(answer)
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
    stack: Stack, answer: str | TpuflexError, version: int | None, of_the_shell: str, token: str
) -> None:
    """HF_TOKEN, else the pinned version of the stack's secret, else none."""
    found, secrets = cloud(stack, answer, version, of_the_shell)

    assert hub_token(found) == token
    if token == IN_SECRET:
        assert [name.rpartition("/secrets/")[2] for name in secrets.asked] == [
            f"{stack.names.secret('hf-token')}/versions/2"
        ]


def test_a_missing_version_says_how_to_add_it(stack: Stack) -> None:
    """A pinned version that nobody has put there is named, with the command that adds it."""
    found, _ = cloud(stack, NotFoundError("no such version"), 1)

    with pytest.raises(NotFoundError, match="Version 1 of the token for the Hub") as caught:
        hub_token(found)
    assert "tpuflex secrets put hf-token --stack dev" in str(caught.value.hint)


def test_a_stack_on_google_asks_the_real_hub(tmp_path: Path) -> None:
    """In a shell that points at the embedded cloud, a stack on Google does not take its
    weights from there; a mirror that the user names stays."""
    hub = {"HF_ENDPOINT": "http://127.0.0.1:8470/huggingface"}

    assert "HF_ENDPOINT" not in google_environment({**hub, "TPUFLEX_EMULATOR": "x"}, tmp_path)
    assert google_environment(hub, tmp_path)["HF_ENDPOINT"] == hub["HF_ENDPOINT"]
