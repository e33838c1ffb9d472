"""What a new project is made of: options, then answers, then defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuflex.errors import Finding, SettingsError, UsageError
from tpuflex.scaffold.new_project import Created, InitOptions, initialize
from tpuflex.scaffold.options import Prompt, Question, Questions


def made(
    directory: Path,
    options: InitOptions,
    prompt: Prompt | None = None,
    accepted: list[Finding] | None = None,
    *,
    defaults: bool = False,
) -> Created:
    """What ``options`` make in ``directory``; refused keys go to ``accepted``, if it is given."""

    def accept(refused: tuple[Finding, ...]) -> None:
        if accepted is None:
            raise SettingsError("a test", refused)
        accepted.extend(refused)

    questions = Questions(prompt, defaults=defaults)
    return initialize(options, questions, directory=directory, environ={}, accept=accept)


def test_answers_fill_in_what_options_leave_open(tmp_path: Path) -> None:
    """Each question comes with the proposed answer, and what was given is not asked."""
    asked: list[tuple[str, str | None]] = []

    def answer(question: Question) -> str:
        asked.append((question.text.partition(" (")[0], question.proposed))
        return question.proposed or "acme-serving"

    created = made(tmp_path, InitOptions(cloud="google", model="google/gemma-4-E4B-it"), answer)

    assert asked == [
        ("Google Cloud project id", None),
        ("Accelerator type", "v6e-1"),
        ("Zone", "us-east5-a"),
        ("Longest run", "4h"),
    ]
    assert created.stack == "gemma-4-e4b-it-v6e-1"
    assert f"stacks/Pulumi.{created.stack}.yaml" in created.written
    assert all((tmp_path / file).is_file() for file in created.written)


def test_without_anybody_to_ask(tmp_path: Path) -> None:
    """All that is missing is named at once, with what ``--yes`` would take; nothing is written."""
    with pytest.raises(UsageError) as caught:
        made(tmp_path, InitOptions(cloud="google"))

    assert str(caught.value).startswith("There is no terminal to ask on. Give --project, --model (")
    assert list(tmp_path.iterdir()) == []


def test_refused_keys_are_left_out_only_with_consent(tmp_path: Path) -> None:
    """A file with a key that cannot be honoured makes nothing until somebody accepts that."""
    source = tmp_path / "serve.sh"
    source.write_text("vllm serve google/gemma-4-E4B-it --max-num-seqs 8 --enable-sleep-mode\n")
    options = InitOptions(
        directory=tmp_path / "new", source=source, project="acme-serving", name="acme"
    )
    accepted: list[Finding] = []

    with pytest.raises(SettingsError):
        made(tmp_path, options, defaults=True)
    left = list((tmp_path / "new").rglob("*.yaml"))
    created = made(tmp_path, options, accepted=accepted, defaults=True)

    assert left == []
    assert [each.key for each in accepted] == ["--enable-sleep-mode"]
    assert created.refused == tuple(accepted)
