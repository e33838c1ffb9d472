"""What the documents tell a reader to type is what the programs understand."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from tests.docs.blocks import PAGES, ROOT, Block, blocks, inline_commands, split_commands
from tests.docs.typed_pages import lines_of
from tpuflex.cli.main import tpuflex
from tpuflex.provider.endpoint_schema import typescript_example, yaml_example
from tpuflex.settings.gateway import GatewaySettings, gateway_findings
from tpuflex.settings.load import parse
from tpuflex.settings.model import PLACEHOLDER_PROJECT
from tpuflex.settings.project_config import project_config
from tpuflex.settings.stack_yaml import read_yaml

#: Languages of blocks, and who looks at them.
LANGUAGES = {"sh", "yaml", "json", "python", "typescript", "text", ""}
#: Programs that are not ours, in blocks that are typed by nobody: what they understand is theirs.
#: Those of gcloud are held to its recorded grammar (tests/unit/test_gcloud_commands.py).
FOREIGN = {
    ".",
    "cat",
    "cd",
    "eval",
    "export",
    "gcloud",
    "gh",
    "hf",
    "mkdir",
    "pip",
    "pulumi",
    "python3",
}
FOREIGN |= {"sed", "source"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

_COMMANDS = [(str(block), words) for block in blocks("sh") for words in block.commands()]
_OURS = [(where, words) for where, words in _COMMANDS if words[0] == "tpuflex"]


def context_of(words: list[str]) -> click.Context:
    """What click makes of the words behind ``tpuflex``.

    Raises:
        click.UsageError: no such command, option, or argument.
    """
    context = tpuflex.make_context("tpuflex", list(words))
    command: click.Command = tpuflex
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            break
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    return context


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory in which the files and directories that commands name are there."""
    for name in ("models/gemma-4-E4B-it", "DIRECTORY", "DIR"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("where", "words"), _OURS, ids=[" ".join(words) for _, words in _OURS])
def test_commands_are_understood(where: str, words: list[str]) -> None:
    """Every command of tpuflex in a block of shell is one, with its options and arguments."""
    try:
        context_of(words[1:])
    except click.UsageError as error:
        pytest.fail(f"{where}: {' '.join(words)}: {error.format_message()}")


def test_there_are_commands() -> None:
    """The collection finds what README and the tutorial say first."""
    assert len(_OURS) > 60
    assert ["tpuflex", "up"] in [words for _, words in _OURS]
    assert any("emulator" in words and "env" in words for _, words in _OURS)


@pytest.mark.parametrize(
    "line",
    ["tpuflex upp", "tpuflex up --forever", "tpuflex down --stack", "tpuflex weights hash a b"],
)
def test_wrong_commands_are_noticed(line: str) -> None:
    """The check of commands can fail: an unknown command, option, a missing value, one too many."""
    ((_, *words),) = split_commands(line)
    with pytest.raises(click.UsageError):
        context_of(words)


def test_commands_in_sentences_are_understood() -> None:
    """So is every command of tpuflex within a sentence, as far as it is written out."""
    wrong = []
    for page, command in inline_commands():
        if re.search(r"[…$,|]|\.\.\.", command):
            continue
        ((_, *words),) = split_commands(command)
        if not words or words[0].startswith("-"):
            continue
        try:
            context_of(words)
        except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
            pass  # a sentence may name a command without its arguments
        except click.UsageError as error:
            if isinstance(error, click.BadParameter) and any(map(str.isupper, words)):
                continue  # what stands for a value: SHA256, KIND
            if isinstance(error, click.BadOptionUsage) and words[-1].startswith("--"):
                continue  # an option without its value
            wrong.append(f"{page}: {command}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)


def test_other_programs_are_known() -> None:
    """A block of shell begins its commands with programs that a reader has, and with targets that
    the Makefile has."""
    others = [(where, words) for where, words in _COMMANDS if words[0] != "tpuflex"]
    assert [
        (where, words)
        for where, words in others
        if not (words[0] in FOREIGN or (words[0] == "make" and words[1] in TARGETS))
    ] == []
    assert {words[0] for _, words in others} >= FOREIGN


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_shell_can_be_read(block: Block) -> None:
    """Bash reads every block of shell."""
    done = subprocess.run(
        ["/bin/bash", "-n"], input=block.text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_block_has_a_language_that_is_looked_at() -> None:
    """No block escapes by its language."""
    fences = [
        (page.name, language)
        for page in PAGES
        for language in re.findall(r"^```(.*)\n(?:.*\n)*?^```$", page.read_text(), re.MULTILINE)
    ]
    assert [fence for fence in fences if fence[1] not in LANGUAGES] == []


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_what_it_says(block: Block) -> None:
    """YAML with `runtime:` is a project file, which may hold a program, the one of the package
    schema; with `config:`, a stack file, whole or a part of one; YAML with rows is one of the
    catalog; a job of GitLab is one; what names repositories, the configuration of pre-commit; what
    has upstreams, a gateway's."""
    text = block.text.replace(PLACEHOLDER_PROJECT, "some-project")
    document = yaml.safe_load(text)
    if "runtime" in document:
        project = project_config(read_yaml(text))
        assert not project.findings
        document["config"] = dict(project.values)
    if "resources" in document:
        program = yaml.safe_load(yaml_example())
        assert {key: yaml.safe_load(block.text)[key] for key in program} == program
    if "config" in document or all(key.startswith("tpuflex:") for key in document):
        settings = parse(whole(document.get("config", document)), str(block))
        assert settings.slice.zones
    elif "repos" in document:
        offered = {
            hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
        }
        assert {hook["id"] for each in document["repos"] for hook in each["hooks"]} <= offered
    elif "upstreams" in document:
        gateway = GatewaySettings.model_validate_json(json.dumps(document), strict=True)
        assert list(gateway_findings(gateway, "")) == []
    elif "script" in next(iter(document.values())):
        (job,) = document.values()
        assert job.keys() <= {"rules", "variables", "script"}
        for script in job["script"]:
            subprocess.run(["/bin/bash", "-n"], input=script, text=True, check=True)
    else:
        assert parse(whole({"tpuflex:catalog": document}), str(block)).catalog


def whole(config: dict[str, object]) -> dict[str, object]:
    """The sections of a stack file in which ``config`` replaces what it names."""
    file = ROOT / "stacks" / "Pulumi.first-proof.yaml"
    text = file.read_text().replace(PLACEHOLDER_PROJECT, "some-project")
    sections: dict[str, object] = yaml.safe_load(text)["config"]
    for key, value in config.items():
        before = sections.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = {**before, **value}
        sections[key] = value
    plain = {key.removeprefix("tpuflex:"): value for key, value in sections.items()}
    made: dict[str, object] = json.loads(json.dumps(plain))
    return made


@pytest.mark.parametrize("block", blocks("json", "python"), ids=str)
def test_json_and_python_can_be_read(block: Block) -> None:
    """JSON is JSON, and Python is Python."""
    if block.language == "json":
        json.loads(block.text)
    else:
        ast.parse(block.text)


def test_typescript_is_the_example_of_the_package_schema() -> None:
    """A program in TypeScript is one that Pulumi's registry would show, to the letter."""
    (block,) = blocks("typescript")

    assert block.text == typescript_example()


@pytest.mark.parametrize("page", ["docs/how-to/first-deployment.md", "docs/tutorial.md"])
def test_what_is_typed_for_google_is_what_is_rehearsed(page: str) -> None:
    """The commands of docs/rehearsal.md, all of which a test types, stand in the guide and in the
    tutorial in the same words and order."""
    told = [
        " ".join(words)
        for block in blocks("sh")
        if block.page == page
        for words in block.commands()
    ]
    rehearsed = [line for line in lines_of("docs/rehearsal.md") if "emulator" not in line]
    typed = [" ".join(shlex.split(line)) for line in rehearsed]
    if page == "docs/tutorial.md":  # `client` and `status` are of its first part
        typed.remove("tpuflex --stack first-proof client")
        typed.remove("tpuflex --stack first-proof status")

    assert len(typed) > 5
    rest = iter(told)
    assert [line for line in typed if line not in rest] == []


def test_marks_are_needed() -> None:
    """A block is marked as not run only in the tutorial, whose other blocks of shell are typed by
    a test, and with a reason; a mark without a block is a mistake."""
    marked = [block for block in blocks(*LANGUAGES) if block.mark.startswith("not run: ")]
    written = sum(page.read_text().count("<!-- not run:") for page in PAGES)

    assert {block.page for block in marked} == {"docs/tutorial.md"}
    assert len(marked) == written
    assert {block.language for block in marked} == {"sh"}
