"""Flags without a setting of their own: what passes is known, looked at, and plain."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stack_sections import sections
from tpuflex.boot.config import boot_config
from tpuflex.catalog.flags import KnownFlag, flag_rules, known_flags, plain_name, vllm_interface
from tpuflex.errors import Finding, SettingsError
from tpuflex.naming import Names
from tpuflex.settings.extra_args import extra_args_findings
from tpuflex.settings.load import parse
from tpuflex.settings.serving import ServingFlags

TYPED = {name.replace("_", "-") for name in ServingFlags.model_fields}
RULES = flag_rules().by_name
REFUSED = sorted(name for name, rule in RULES.items() if rule.refused is not None)
ACCEPTED = sorted(name for name, rule in RULES.items() if rule.accepted is not None)


def found(*arguments: str) -> list[Finding]:
    """What is said of ``arguments``."""
    return list(extra_args_findings(arguments))


def findings(changes: dict[str, object]) -> tuple[Finding, ...]:
    """What is said of a stack with ``changes``."""
    try:
        parse(sections(changes), "test")
    except SettingsError as error:
        return error.findings
    return ()


def example(name: str) -> list[str]:
    """The flag ``name`` with a value that it takes."""
    flag, rule = known_flags()[name], RULES[name]
    if flag.values == "none":
        return [f"--{name}"]
    if rule.values is not None:
        words = (*rule.values.split("|"), "1.2", "1")
        return [f"--{name}", next(word for word in words if re.fullmatch(rule.values, word))]
    value = flag.choices[0] if flag.choices else {"int": "1", "float": "0.5"}.get(flag.type or "")
    return [f"--{name}", value or "word"]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_reason(name: str) -> None:
    """Every refused flag, in either spelling and with or without a value, is refused by its row."""
    rule = RULES[name]
    for word in (f"--{name}", f"--{name.replace('-', '_')}"):
        for arguments in ((word,), (word, "x"), (f"{word}=x",)):
            (finding,) = found("--seed", "1", *arguments)
            assert finding.key == "tpuflex:serving.extra_args[2]"
            assert str(rule.refused) in finding.problem
            assert finding.remedy == rule.remedy


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_a_key_of_flags(name: str) -> None:
    """The same reason is given where such a flag is written among the settings."""
    key = name.replace("-", "_")
    (finding,) = findings({f"serving.flags.{key}": "x"})
    assert finding.key == f"tpuflex:serving.flags.{key}"
    assert str(RULES[name].refused) in finding.problem


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    """Every accepted flag passes with a value of its kind, and is found among the settings."""
    assert found(*example(name)) == []
    (finding,) = findings({f"serving.flags.{name.replace('-', '_')}": 1})
    assert f"Write --{name}" in finding.remedy
    assert "extra_args" in finding.remedy


@pytest.mark.parametrize("name", sorted(TYPED & set(known_flags())))
def test_a_setting_is_not_said_twice(name: str) -> None:
    """A flag that has a setting cannot contradict it from the list, whatever its spelling."""
    for word in known_flags()[name].names:
        if word.startswith("--"):
            (finding,) = found(word)
            assert re.search(r"Write \w+ in tpuflex:serving.flags", finding.remedy)


def test_every_setting_is_a_flag_of_vllm() -> None:
    """A typed setting becomes a flag that vLLM's own parser knows."""
    assert set(known_flags()) >= TYPED


@pytest.mark.parametrize(
    "arguments",
    [
        ("--disable-fastapi-docs",),
        ("--no-disable-fastapi-docs",),
        ("--fail-on-environ-validation",),
        ("--max-num-queued-reqs", "0"),
        ("--max-num-queued-tokens", "0"),
        ("--root-path", "/x"),
        ("--uvicorn-log-level", "debug"),
    ],
)
def test_what_would_end_the_boot_is_refused(arguments: tuple[str, ...]) -> None:
    """What hides or turns away the questions that a host asks its server before READY is refused
    before chips are paid for."""
    (finding,) = found(*arguments)
    assert finding.key == "tpuflex:serving.extra_args[0]"


def test_a_flag_that_nobody_has_looked_at_is_refused() -> None:
    """vLLM's next flag is closed until a row says what it does."""
    rest = {
        flag.name
        for flag in vllm_interface().flags
        if not TYPED & {plain_name(name) for name in flag.names} and flag.name not in RULES
    }
    assert rest
    for name in rest:
        (finding,) = found(f"--{name}")
        assert "nobody has looked yet" in finding.problem


def test_rows_name_flags_of_this_vllm_or_removed_ones() -> None:
    """A row about a flag that vLLM has not is one that says so, and none is about a setting."""
    for name, rule in RULES.items():
        assert name not in TYPED
        gone = "was re" in str(rule.refused)
        assert (name in known_flags()) is not gone, name


def test_no_flag_has_two_rows() -> None:
    """What is said of a flag is said once."""
    names = [name for rule in flag_rules().flags for name in rule.flags]
    assert len(names) == len(set(names))


def test_what_takes_a_document_is_not_accepted() -> None:
    """A JSON value may name classes, files and places: it needs a typed setting."""
    accepted = [known_flags()[name] for name in ACCEPTED]
    assert [flag.name for flag in accepted if flag.type == "json"] == []


HOSTILE: Sequence[tuple[str, ...]] = [
    ("--seed", "1", "--api-key", "x"),
    ("--seed=1", "2"),
    ("--seed", "--api-key"),
    ("--seed", "--config"),
    ("--seed=--config",),
    ("--seed", "1", "/etc/passwd"),
    ("model",),
    ("",),
    ("-",),
    ("--",),
    ("-q", "fp8"),
    ("-O3",),
    ("-tp", "8"),
    ("--speculative-config.method", "custom_class"),
    ("--compilation-config.backend", "x.y"),
    ("--hf-overrides.auto_map+", "x"),
    ("--middlewar", "x"),
    ("--MIDDLEWARE", "x"),
    ("--help=all",),
    ("--seed", "1\n--api-key"),
    ("--seed", "1", "--seed", "2"),
    ("--seed", "1", "--seed=2"),
    ("--response-role", "a b"),
    ("--response-role", "$(touch x)"),
    ("--response-role", "'; touch x; '"),
    ("--disable-log-stats", "x"),
    ("--disable-log-stats=1",),
    ("--scheduling-policy", "mine"),
    ("--uvicorn-log-level", "trace"),
    ("--tokenizer-mode", "custom"),
    ("--no-trust-remote-code",),
    ("--no-seed",),
    ("\u2013\u2013seed", "1"),
    ("--seed\0", "1"),
]


@pytest.mark.parametrize("arguments", HOSTILE)
def test_no_word_becomes_another_flag(arguments: tuple[str, ...]) -> None:
    """Each member is one word of a flag that is known, or it is refused under its own key."""
    refused = found(*arguments)
    assert refused
    for finding in refused:
        assert re.fullmatch(r"tpuflex:serving\.extra_args\[\d+\]", finding.key)


@given(st.lists(st.text(max_size=30) | st.sampled_from(["--seed", "--config", "1"]), max_size=6))
def test_any_words(arguments: list[str]) -> None:
    """Whatever passes is made of accepted flags and plain values, and nothing else."""
    if found(*arguments):
        return
    for word in arguments:
        name = plain_name(word.partition("=")[0])
        if word.startswith("--"):
            flag: KnownFlag = known_flags()[name]
            assert RULES[flag.name].accepted
        else:
            assert re.fullmatch(r"[A-Za-z0-9_.-]+", word)


def test_the_arguments_reach_the_host_before_the_last_word() -> None:
    """They follow the typed flags; the media domains come after them."""
    changes = {
        "serving.extra_args": ["--seed", "7", "--max-num-queued-reqs=64"],
        "serving.flags": {"max_model_len": 512},
    }
    stack = parse(sections(changes), "test")
    args = boot_config(stack, Names("p", "s", "e"), "0" * 64).serving.args
    middle = ("--seed", "7", "--max-num-queued-reqs=64")
    place = args.index("--seed")
    assert args[place : place + 3] == middle
    assert args[:place][-2:] == ("--max-model-len", "512")
    assert args[place + 3 :] == ("--allowed-media-domains", "none.invalid")


def test_too_many_words_are_refused() -> None:
    """The list has a bound, as every list of a stack file."""
    (finding,) = findings({"serving.extra_args": ["--seed"] * 65})
    assert finding.key == "tpuflex:serving.extra_args"
