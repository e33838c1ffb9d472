"""`tpuflex recommend` answers each scenario in whole, and every figure names its source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.typing import TypeIn
from tests.goldens.golden_texts import assert_golden
from tpuflex.planning.scenarios import SCENARIOS

NAMES = [row.name for row in SCENARIOS]
#: What was asked for, and counts that a name says already.
NOT_FIGURES = {"request", "chips"}


def figures(document: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every number of the document, with the object that explains it."""
    if isinstance(document, dict):
        if isinstance(document.get("value"), int | float):
            yield path, document
        for key, value in document.items():
            if key in NOT_FIGURES or key == "sources" or (key == "value" and "sources" in document):
                continue
            yield from figures(value, f"{path}.{key}")
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from figures(value, f"{path}[{place}]")
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield path, {}


@pytest.mark.parametrize("name", NAMES)
def test_scenario_as_text(type_in: TypeIn, name: str) -> None:
    """The whole answer to a scenario, as people see it."""
    typed = type_in("recommend", "--scenario", name)

    assert (typed.code, typed.err) == (0, "")
    assert_golden(f"recommend/{name}.txt", typed.out)


@pytest.mark.parametrize("name", NAMES)
def test_scenario_as_json(type_in: TypeIn, name: str) -> None:
    """Every number that scripts get says where it comes from, and what is assumed says that it is;
    one answer with options in whole, and one without."""
    typed = type_in("--json", "recommend", "--scenario", name)

    assert typed.code == 0
    found = list(figures(typed.document))
    assert found or typed.document["scenario"]["elsewhere"]
    for path, figure in found:
        assumed = str(figure.get("basis", "")).startswith("assumed: ")
        assert figure.get("sources") or assumed, f"{path} has no source"
        table = [typed.document["sources"][str(number)] for number in figure["sources"]]
        assert all(source["where"] and source["date"] for source in table), path
    if name in ("interactive-api", "edge"):
        assert_golden(f"recommend/{name}.json", json.dumps(typed.document, indent=1) + "\n")


def test_list_of_scenarios(type_in: TypeIn) -> None:
    """The scenarios, with what answers them."""
    typed = type_in("recommend", "--scenario", "list")

    assert_golden("recommend/list.txt", typed.out)
    listed = type_in("--json", "recommend", "--scenario", "list").document
    assert [row["name"] for row in listed] == NAMES


def test_everything_with_verbose(type_in: TypeIn) -> None:
    """The table ends after six options unless all are wanted."""
    words = ("recommend", "--scenario", "cost-sensitive")
    short, long = type_in(*words).out, type_in(*words, "--verbose").out

    assert "more fit and rank lower" in short
    assert "more fit and rank lower" not in long
    assert len(long.splitlines()) > len(short.splitlines())


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--context", "131072", "--model", "google/gemma-4-26B-A4B-it"), 0, "Take 3 stacks of"),
        (("--context", "16384", "--budget", "5"), 4, "Nothing that holds 8 at once is known to be"),
        (("--context", "2048", "--model", "google/gemma-4-E4B-it", "--budget", "1"), 4, "$1.35, 1"),
        (("--context", "131072", "--model", "Qwen/Qwen3-Coder-480B-A35B-Instruct"), 5, "Nothing"),
    ],
)
def test_the_answer_in_a_sentence(
    type_in: TypeIn, words: tuple[str, ...], code: int, said: str
) -> None:
    """What one stack cannot do is said above the table, with what can; the exit code says no."""
    model = () if "--model" in words else ("--model", "google/gemma-4-31B-it")
    typed = type_in("recommend", *words, *model, "--concurrency", "8")

    assert typed.code == code
    assert said in typed.out


def test_nothing_fits(type_in: TypeIn) -> None:
    """It is said in plain words, with what comes nearest and what helps, for people and scripts."""
    words = ("recommend", "--model", "Qwen/Qwen3-Coder-480B-A35B-Instruct")
    typed, document = type_in(*words), type_in("--json", *words).document

    assert typed.code == 5
    assert "Nothing fits: no accelerator type of one host" in typed.out
    assert "Nearest is v5p-8: the weights" in typed.out
    assert "What helps is a smaller model" in typed.out
    assert "PER HOUR" not in typed.out
    assert document["fits"] is False
    assert document["nearest"]["shorter_context"] is None
    assert document["nearest"]["roomiest"]["accelerator_type"] == "v5p-8"


def test_a_shorter_context_fits(project: Path, type_in: TypeIn) -> None:
    """The context that fits is a word to type; chips that no stack can be on are named as such."""
    listed = type_in("--json", "catalog", "models", "meta-llama/Llama-3.3-70B-Instruct").document
    tall = {**listed["models"][0], "name": "own/tall", "layers": 200}
    (project / "catalog.yaml").write_text(json.dumps({"models": [tall]}))
    typed = type_in("recommend", "--model", "own/tall", "--context", "131072")

    assert typed.code == 5
    longest = re.search(
        r"The longest context that fits is .* tokens, on own/tall on v5p-8, fp8 cache, price not"
        r" known: --context (\d+)\.",
        typed.out,
    )
    assert longest is not None
    assert "Held by tpu7x-8, which the Cloud TPU API does not have" in typed.out
    assert type_in("recommend", "--model", "own/tall", "--context", longest[1]).code == 0


def test_the_price_of_generated_tokens(type_in: TypeIn) -> None:
    """Dollars per million generated tokens stand in the table and in the document, as a bound."""
    words = ("recommend", "--model", "google/gemma-4-31B-it")
    typed, document = type_in(*words), type_in("--json", *words).document

    bound = document["options"][0]["limits"]["least_usd_per_million_generated"]["value"]
    assert "PER MILLION OUT" in typed.out
    assert f"from ${bound:.2f}" in typed.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-s", "none"), 4, "There is no stack 'none'"),
        (("--scenario", "intractive-api"), 4, "Did you mean interactive-api?"),
        (
            ("--model", "google/gemma-4-E4B", "--context", "1", "--concurrency", "1"),
            4,
            "Did you mean google/gemma-4-E4B-it",
        ),
        (("--scenario", "batch", "--budget", "cheap"), 2, "write US dollars per hour"),
        (("--scenario", "batch", "--budget", "NaN"), 2, "write US dollars per hour"),
        (("--scenario", "batch", "--budget", "-1"), 2, "write US dollars per hour"),
        (("--scenario", "batch", "--ttft", "nan"), 2, "not a finite number"),
        (("--scenario", "batch", "--ttft", "inf"), 2, "not in the range"),
        (("--scenario", "batch", "--context", "0"), 2, "0 is not in the range"),
        (("--scenario", "batch", "--ttft", "0"), 2, "0.0 is not in the range"),
        (("--scenario", "list", "--budget", "5"), 2, "takes nothing else"),
        (("--scenario", "batch", "--context", "9000000"), 2, "tokens are too many: "),
    ],
)
def test_refusals(type_in: TypeIn, words: tuple[str, ...], code: int, said: str) -> None:
    """What is missing, wrong or impossible is said, with what to do."""
    typed = type_in("recommend", *words)

    assert typed.code == code
    assert said in typed.err


def test_without_a_model(project: Path, type_in: TypeIn) -> None:
    """The stack says what it serves and to how many; where there is none, the option is named."""
    typed = type_in("recommend", "--json")
    request = typed.document["request"]
    assert request["models"] == ["HuggingFaceTB/SmolLM2-135M-Instruct"]
    assert (request["context"], request["concurrency"]) == (512, 8)

    (project / "Pulumi.yaml").unlink()
    typed = type_in("recommend")
    assert typed.code == 2
    assert "Missing --model: say what to serve" in typed.err


@pytest.mark.parametrize(
    ("words", "load"),
    [
        ((), (16_384, 8)),
        (("--context", "64k", "--concurrency", "3"), (64_000, 3)),
        (("--context", "64K"), (65_536, 8)),
    ],
)
def test_the_load(type_in: TypeIn, words: tuple[str, ...], load: tuple[int, int]) -> None:
    """A model alone is given a usual load; suffixes of tokens mean what they mean to vLLM."""
    typed = type_in("recommend", "--json", "--model", "google/gemma-4-E4B-it", *words)

    request = typed.document["request"]
    assert (request["context"], request["concurrency"]) == load


@pytest.fixture
def own_price(project: Path) -> Path:
    """A catalog.yaml with a price of the project's own."""
    file = project / "catalog.yaml"
    file.write_text(
        """\
prices:
  - generation: v6e
    region: europe-west4
    kind: flex_start
    usd_per_chip_hour: 0.5
    source: {where: our contract, date: "2026-11-01"}
"""
    )
    return file


def test_rows_of_the_project(type_in: TypeIn, own_price: Path) -> None:
    """A project's own prices count, with their own source; what is wrong with them is reported."""
    words = ("recommend", "--scenario", "interactive-api")
    document = type_in("--json", *words).document
    price = document["options"][0]["usd_per_hour"]

    assert (price["value"], price["basis"]) == (2.0, "4 chips at $0.5 in europe-west4")
    assert document["sources"][str(price["sources"][0])]["where"] == "our contract"

    own_price.write_text(own_price.read_text().replace("0.5", "-1"))
    typed = type_in(*words)
    assert typed.code == 5
    assert "catalog.yaml:prices[0].usd_per_chip_hour" in typed.err
