"""`weights hash` of a model of the embedded cloud's Hub: what is printed, and exit codes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.hub_models import MODEL, TOKEN, put_model

COMMIT = "9aa23b6a9864f1dcf33865104cc11b813f1b2ff0"
ADVICE = (
    "Set HF_TOKEN to a token that may read it (https://huggingface.co/settings/tokens), or keep one"
    " in Secret Manager: tpuflex:secrets.hf_token_version: 1 in the stack file, then `tpuflex"
    " secrets put hf-token`.\n"
)
#: Source, token, exit code, and all that is printed for people.
REFUSALS = (
    (
        f"hf://{MODEL}",
        "",
        6,
        f"Error: hf://{MODEL}@main is gated, and there is no token for the Hub\n"
        f"Accept the terms on https://huggingface.co/{MODEL}. {ADVICE}",
    ),
    (
        f"hf://{MODEL}",
        "hf_another",
        6,
        f"Error: hf://{MODEL}@main is gated, and the Hub does not give it to the account of this"
        f" token\nAccept the terms on https://huggingface.co/{MODEL}; the owner may have to agree,"
        " too.\n",
    ),
    (
        f"hf://{MODEL}@{'0' * 40}",
        TOKEN,
        4,
        f"Error: hf://{MODEL}@{'0' * 40}: the model has no such revision, or not any more\n"
        f"Choose a commit from https://huggingface.co/{MODEL}/commits/main and write it to"
        " tpuflex:model.weights.source.\n",
    ),
    (
        "hf://acme/nothing",
        TOKEN,
        4,
        "Error: the Hub has no model acme/nothing that the account of this token may see\n"
        "Check the name in tpuflex:model.weights.source.\n",
    ),
    (
        "hf://acme",
        TOKEN,
        5,
        "Error: Pulumi.dev.yaml has 1 problem:\n"
        "  tpuflex:model.weights.source: 'hf://acme' does not name a model of the Hugging Face Hub"
        " (line 21). Write hf://OWNER/NAME@COMMIT, with the 40 digits of a commit, or a branch or"
        " tag.\n",
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
    """M11: a gated model is fetched with HF_TOKEN, its commit is printed, and what is refused ends
    with text, hint and the exit code of its kind; nothing names the token. What came once is known
    by its sums."""
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
        rf" {models}/fetching-[0-9a-f]+; left out, as no data formats: \.gitattributes,"
        r" original/consolidated\.pth, pytorch_model\.bin",
        second,
    )
    assert re.fullmatch(r"manifest_sha256: [0-9a-f]{64}\n", typed.out)
    assert [path.suffix for path in models.iterdir()] == [".lock"]

    write_source(project, f"hf://{MODEL}@{COMMIT}")
    again = type_in("weights", "hash", "-s", "dev", HF_TOKEN=TOKEN)
    assert (again.code, again.out, again.err) == (0, typed.out, "")


def test_a_hub_that_limits_requests(type_in: TypeIn, project: Path, hub: Path) -> None:
    """M11: a Hub that still limits requests after its own waits ends the command with 1, and the
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
