"""Commands in advice can be typed as they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from string import Formatter

import click
import pytest

from tests.cli.typing import Captured
from tests.unit.test_layers import modules, parsed
from tpuflex.advice import COMMANDS, Advice
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import tpuflex
from tpuflex.errors import EngineError
from tpuflex.terminal.output import Output

#: A command about one stack, as it would stand in prose: --all is about many, --model-dir about
#: none.
IN_PROSE = re.compile(rf"\b(?:{'|'.join(COMMANDS.values())})\b(?! --all\b| --model-dir\b)")


@pytest.mark.parametrize(
    ("advice", "plain", "shown"),
    [
        (
            Advice("`{up}` asks, `{down}` ends it"),
            "`tpuflex up` asks, `tpuflex down` ends it",
            "`tpuflex up --stack big` asks, `tpuflex down --stack big` ends it",
        ),
        (
            Advice(
                "`{weights_push}` makes it, {weights_rm} {place} removes it", place="gs://{b}/m"
            ),
            "`tpuflex weights push` makes it, tpuflex weights rm gs://{b}/m removes it",
            "`tpuflex weights push --stack big` makes it,"
            " tpuflex weights rm --stack big gs://{b}/m removes it",
        ),
        (
            Advice(
                "{log}\n{then}", log="It is in {here}.", then=Advice("Delete it: {sweep} --yes")
            ),
            "It is in {here}.\nDelete it: tpuflex sweep --yes",
            "It is in {here}.\nDelete it: tpuflex sweep --stack big --yes",
        ),
        (
            Advice.lines("", Advice(""), "First.", Advice("Then: {up}")),
            "First.\nThen: tpuflex up",
            "First.\nThen: tpuflex up --stack big",
        ),
        (Advice("run `{up}`").sentence(), "Run `tpuflex up`.", "Run `tpuflex up --stack big`."),
        (
            Advice.of("Tear them down: tpuflex down --all, or {this}."),
            "Tear them down: tpuflex down --all, or {this}.",
            "Tear them down: tpuflex down --all, or {this}.",
        ),
    ],
)
def test_advice_is_for_the_stack_that_is_meant(advice: Advice, plain: str, shown: str) -> None:
    """Its commands name the stack, unless it is the default one; a plain string is about none."""
    assert advice.for_stack("big", {}) == shown
    assert advice.for_stack("dev", {}) == str(advice) == plain


def test_the_default_stack_is_named_where_the_environment_names_another() -> None:
    """A command without --stack would work on $TPUFLEX_STACK; an empty one counts as none."""
    advice, typed = Advice("{down}"), {"TPUFLEX_STACK": "big"}

    assert advice.for_stack("dev", typed) == "tpuflex down --stack dev"
    assert advice.for_stack("big", typed) == "tpuflex down --stack big"
    assert advice.for_stack("dev", {"TPUFLEX_STACK": "dev"}) == "tpuflex down"
    assert advice.for_stack("dev", {"TPUFLEX_STACK": ""}) == "tpuflex down"
    # Who reads a document has an environment that is not known.
    assert advice.for_stack("dev") == "tpuflex down --stack dev"


def test_a_failure_advises_for_the_stack_of_the_command(capsys: Captured) -> None:
    """`tpuflex --stack dev` in a shell that names another stack advises for dev."""
    invocation = Invocation(environ={"TPUFLEX_STACK": "big"}, chosen_stack="dev")

    invocation.output.failure(EngineError("locked", hint=Advice("Run: {recover}")))

    assert capsys.readouterr().err == "Error: locked\nRun: tpuflex recover --stack dev\n"


@pytest.mark.parametrize("words", COMMANDS.values())
def test_what_is_advised_can_be_typed(words: str) -> None:
    """Each command that is completed with --stack takes it there."""
    command: click.Command = tpuflex
    for word in words.removeprefix("tpuflex ").split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    assert any("--stack" in each.opts for each in command.params)


def test_a_failure_advises_for_its_stack(capsys: Captured) -> None:
    """The hint names the stack, for people and in the document."""
    output = Output(json=True, verbose=False, stack="big")

    output.failure(EngineError("locked", hint=Advice("If it is dead: {recover}")))

    said = capsys.readouterr()
    assert said.err == "Error: locked\nIf it is dead: tpuflex recover --stack big\n"
    assert '"hint": "If it is dead: tpuflex recover --stack big"' in said.out


def test_no_hint_has_a_command_in_plain_prose() -> None:
    """Where a stack's command stands in a string, the hint would be about the default stack."""
    assert [
        f"{name}: {text}"
        for name, path in modules().items()
        if IN_PROSE.search(path.read_text())
        for text in plain_hints(parsed(path))
        if IN_PROSE.search(text) and "--stack" not in text
    ] == []


def test_each_field_is_a_command_or_given() -> None:
    """A template is a literal, so that no value is taken for a field of it; and no advice is put
    into an f-string, which would lose what its commands are about."""
    for name, path in modules().items():
        if "Advice(" not in path.read_text():
            continue
        tree = parsed(path)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Advice":
                template = ast.literal_eval(call.args[0])
                fields = {field for _, field, _, _ in Formatter().parse(template)} - {None}
                assert fields - COMMANDS.keys() == {each.arg for each in call.keywords}, template
        given = {each for each, value in constants(tree) if _is_advice(value)}
        shown = [each.value for each in ast.walk(tree) if isinstance(each, ast.FormattedValue)]
        assert not {ast.unparse(each) for each in shown} & given, name


def _is_advice(value: ast.expr) -> bool:
    return ast.unparse(value).startswith("Advice(")


def plain_hints(tree: ast.Module) -> Iterator[str]:
    """The strings of hints outside of advice; those behind a module's constant, too."""
    by_name = dict(constants(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"hint", "again", "remedy"}:
            named = by_name.get(node.value.id) if isinstance(node.value, ast.Name) else None
            yield from strings(named or node.value)


def constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that the module itself assigns, with their values."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            yield from ((ast.unparse(target), statement.value) for target in statement.targets)


def strings(node: ast.AST) -> Iterator[str]:
    """The strings of an expression; not those that advice is made of."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("Advice"):
        return
    if isinstance(node, (ast.JoinedStr, ast.Constant)):
        yield ast.unparse(node)
        return
    for child in ast.iter_child_nodes(node):
        yield from strings(child)
