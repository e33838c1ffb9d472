"""Other tools' configurations: every key mapped, found to be so anyway, or refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.goldens.golden_texts import assert_golden
from tpuflex.errors import Finding, NotFoundError, SettingsError, TpuflexError
from tpuflex.scaffold import foreign_file
from tpuflex.scaffold.foreign_file import translated_file
from tpuflex.scaffold.serve_command import translated_command
from tpuflex.scaffold.translation import Translation

FOREIGN = Path(__file__).parent / "foreign"
AB = {"model.name": "a/b"}


def shown(found: Translation) -> str:
    """All of a translation, as text."""
    lines = [f"{found.origins[key]} -> {key}: {value!r}" for key, value in found.settings.items()]
    lines += [f"as is: {each}" for each in found.as_is]
    lines += [f"refused: {each}" for each in found.refused]
    lines += [f"unset: ${each.variable} at {each.key}" for each in found.unset]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["inference.yaml", "values.yaml", "serve.sh"])
def test_published_configurations(name: str) -> None:
    """The whole translation of each published configuration."""
    assert_golden(f"init/{name}.txt", shown(translated_file(FOREIGN / name)))


@pytest.mark.parametrize("name", ["inference.yaml", "values.yaml"])
def test_no_key_is_lost(name: str) -> None:
    """Each value of the file is in the translation, and tpuflex knows each key of the template."""
    found = translated_file(FOREIGN / name)
    said = {*found.origins.values(), *(each.key for each in (*found.as_is, *found.refused))}
    expected = {
        key for key in leaves(yaml.safe_load((FOREIGN / name).read_text())) if key != "args"
    }

    said = {key for key in said if not key.startswith("args: ")}
    assert {
        key for key in expected if not any(f"{key}.".startswith(f"{each}.") for each in said)
    } == set()
    assert {
        key for key in said if not any(f"{each}.".startswith(f"{key}.") for each in expected)
    } == set()
    assert "is not a key that tpuflex knows" not in shown(found)


def leaves(document: dict[str, Any], path: str = "") -> set[str]:
    """Dotted keys of the values in ``document``."""
    found: set[str] = set()
    for name, value in document.items():
        key = f"{path}{name}"
        found |= leaves(value, f"{key}.") if isinstance(value, dict) else {key}
    return found


def file_with(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "foreign.txt"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("caching.eviction_policy", "lfu", "refused"),
        ("caching.paged_attention", False, "refused"),
        ("caching.paged_attention", 1, "refused"),
        ("scheduling.prefill_decode_split", False, "as is"),
        ("scheduling.circuit_breaker_enabled", False, "as is"),
        ("monitoring.metrics_endpoint", "/stats", "refused"),
        ("monitoring.log_level", "LOUD", "refused"),
        ("region", "us-east5", "refused"),
        ("hardware.cooling", "water", "refused"),
    ],
)
def test_values_decide(tmp_path: Path, key: str, value: object, said: str) -> None:
    """What is so anyway is not refused, and what merely looks like it is."""
    tree: dict[str, Any] = {}
    *sections, last = key.split(".")
    place = tree
    for name in sections:
        place = place.setdefault(name, {})
    place[last] = value

    text = shown(translated_file(file_with(tmp_path, yaml.safe_dump({"inference": tree}))))

    assert text.startswith(f"{said}: inference.{key}: ")
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vllm serve a/b", {"model.name": "a/b"}),
        ("vllm serve --model=a/b --port 9000", {"model.name": "a/b", "serving.port": 9000}),
        ("vllm serve a/b -tp 4", {"model.name": "a/b", "serving.flags.tensor_parallel_size": 4}),
        (
            "vllm serve a/b --no-enable-prefix-caching --dtype auto",
            {
                "model.name": "a/b",
                "serving.flags.enable_prefix_caching": False,
                "serving.flags.dtype": "auto",
            },
        ),
        (
            "vllm serve a/b --max-num-queued-reqs 64",
            {"model.name": "a/b", "serving.extra_args": ["--max-num-queued-reqs", "64"]},
        ),
        ("vllm serve a/b --max-model-len 8k", {**AB, "serving.flags.max_model_len": 8000}),
        ("vllm serve a/b --max-model-len=32K", {**AB, "serving.flags.max_model_len": 32768}),
        (
            "vllm serve a/b --max-num-batched-tokens 2.5k",
            {**AB, "serving.flags.max_num_batched_tokens": 2500},
        ),
        (
            "A=x B=y vllm serve a/b",
            {"serving.env.A": "x", "serving.env.B": "y", **AB},
        ),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model a/b --dtype auto",
            {**AB, "serving.flags.dtype": "auto"},
        ),
        (
            "vllm serve a/b --limit-mm-per-prompt.image 2 --limit-mm-per-prompt.audio=0",
            {**AB, "serving.flags.limit_mm_per_prompt": {"image": 2, "audio": 0}},
        ),
        (
            "vllm serve a/b --show-hidden-metrics-for-version 0.30",
            {**AB, "serving.extra_args": ["--show-hidden-metrics-for-version", "0.30"]},
        ),
        (
            "docker run --rm img@sha256:00 --model a/b --max-num-seqs 8",
            {"serving.image": "img@sha256:00", **AB, "serving.flags.max_num_seqs": 8},
        ),
        (
            "docker run -it --rm -e A=1 -e B='x y' --shm-size=8g img@sha256:00 serve a/b",
            {
                "serving.env.A": "1",
                "serving.env.B": "x y",
                "serving.shm_size": "8g",
                "serving.image": "img@sha256:00",
                "model.name": "a/b",
            },
        ),
    ],
)
def test_command_lines(command: str, expected: dict[str, object]) -> None:
    """Flags with spaces, `=`, short names and `--no-`; options of docker run."""
    assert translated_command(command).settings == expected


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("python serve.py; ls", "has no `vllm serve`.*: it has python, ls"),
        ("vllm serve a/b extra", "where a flag is expected"),
        ("vllm serve 'a/b", "' has no end"),
        ("echo\nvllm serve ${A", r"line 2: \{ has no end"),
        ("docker run --frob img serve a/b", "--frob"),
        ("docker run --name vllm -e", "ends after -e"),
        ("docker run --name vllm", "names no image"),
        ("docker run nginx", "no `docker run` of vLLM: it has docker"),
        ("vllm serve a/b &\nvllm serve c/d", r"starts 2 servers \(lines 1, 2\)"),
        ("echo 'vllm serve a/b'", "it has echo"),
        ("A=xxxxxxxxxxxxxxxx\n" + "A=$A$A\n" * 40, "longer than"),
        ("vllm serve " + "${a:-" * 5000 + "}" * 5000, "nested too deeply"),
    ],
)
def test_what_is_no_command(command: str, problem: str) -> None:
    """It is refused as a whole, and says why: guessing would lose a word."""
    with pytest.raises(SettingsError, match=problem):
        translated_command(command)


@pytest.mark.parametrize(
    ("command", "key", "reason"),
    [
        ("vllm serve a/b --max-model-len auto", "--max-model-len", "memory is planned before"),
        ("vllm serve a/b --served-model-name x y", "--served-model-name", "under its own name"),
        ("vllm serve a/b --dtype '{a: 1}'", "--dtype", "is not one of the choices"),
        ("vllm serve a/b -cc.mode=3", "--compilation-config", "may name Python classes"),
    ],
)
def test_what_cannot_be_mapped(tmp_path: Path, command: str, key: str, reason: str) -> None:
    """A spelling of vLLM's that no stack can have is refused by name, with its own reason."""
    found = translated_file(file_with(tmp_path, command))

    assert [each.key for each in found.refused] == [key]
    assert reason in str(found.refused[0])
    assert found.settings == AB


def test_a_limit_of_the_model(tmp_path: Path) -> None:
    """Audio is refused for a model without an audio tower, and images are kept."""
    command = (
        """vllm serve google/gemma-4-31B-it --limit-mm-per-prompt '{"image": 4, "audio": 1}'"""
    )
    found = translated_file(file_with(tmp_path, command))

    assert found.settings["serving.flags.limit_mm_per_prompt"] == {"image": 4}
    assert [each.key for each in found.refused] == ["--limit-mm-per-prompt audio"]
    other = translated_file(file_with(tmp_path, command), model="google/gemma-4-E4B-it")
    assert not other.refused


@pytest.mark.parametrize(
    "text",
    [
        'image: {command: ["vllm", "serve", "a/b", "--max-num-seqs", "8"]}',
        'command: ["vllm", "serve", "a/b"]\nargs: ["--max-num-seqs", "8"]',
        'args: ["--model", "a/b", "--max-num-seqs", "8"]',
    ],
)
def test_commands_of_a_container(tmp_path: Path, text: str) -> None:
    """The command may stand at the image, in two parts, or be flags alone."""
    found = translated_file(file_with(tmp_path, text))

    assert found.settings == {**AB, "serving.flags.max_num_seqs": 8}
    assert not found.refused


#: 10 ** 12 values in 400 characters.
BOMB = "[&a0 [0,0,0,0,0,0,0,0,0,0]" + "".join(
    f",&a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)
)


@pytest.mark.parametrize(
    "text",
    [
        f"vllm serve m --hf-overrides '{{a: {BOMB}]}}'",
        f"vllm serve m --limit-mm-per-prompt='{BOMB}]'",
        yaml.safe_dump({"args": ["serve", "m", "--hf-overrides", f"{{a: {BOMB}]}}"]}),
        "vllm serve m --hf-overrides '{a: 1, a: 2}'",
    ],
)
def test_values_are_read_within_bounds(tmp_path: Path, text: str) -> None:
    """A value that stands for more than memory holds, or says two things, is no value: its flag is
    refused by name, and at once."""
    (refusal,) = translated_file(file_with(tmp_path, text)).refused

    assert re.search("--(hf-overrides|limit-mm-per-prompt)$", refusal.key)


def test_many_flags_are_judged_once_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The work grows with the number of flags, not with its square."""
    judged: list[int] = []
    problems = foreign_file._problems

    def counted(settings: Mapping[str, object]) -> tuple[Finding, ...]:
        judged.append(len(settings))
        return problems(settings)

    monkeypatch.setattr(foreign_file, "_problems", counted)
    translated_file(
        file_with(tmp_path, "vllm serve m --block-size 1 --max-num-seqs 2 --seed 3 --dtype x")
    )

    assert sorted(judged) == [1, 1, 1, 3]


def test_secrets_are_refused_and_not_repeated(tmp_path: Path) -> None:
    """A key in the environment or a flag is refused by name; its value is nowhere."""
    command = (
        "docker run -e HF_TOKEN=hf_abcdefgh -e VLLM_API_KEY=sk-abcdefgh img@sha256:00 serve a/b"
        " --api-key sk-abcdefgh --hf-token hf_abcdefgh"
    )

    text = shown(translated_file(file_with(tmp_path, command)))

    assert "as is: -e HF_TOKEN: " in text
    assert "as is: --hf-token: " in text
    assert "refused: -e VLLM_API_KEY: " in text
    assert "refused: --api-key: " in text
    assert "abcdefgh" not in text


def test_one_setting_twice() -> None:
    """Two values for one setting are not settled by order."""
    found = translated_command("vllm serve a/b --model c/d --max-num-seqs 8 --max_num_seqs 8")

    assert [str(each) for each in found.refused] == [
        "--model: says otherwise than MODEL. Write it once."
    ]
    assert found.settings == {"model.name": "a/b", "serving.flags.max_num_seqs": 8}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "- 1\n- 2",
        "a: {{ .b }}\nc",
        "inference: x",
        "a: 1",
        "inference: {a: &x [*x]}",
        "args: {a: 1}",
    ],
)
def test_files_of_no_known_format(tmp_path: Path, text: str) -> None:
    """They are refused with the formats that are read, or by key."""
    try:
        found = translated_file(file_with(tmp_path, text))
    except SettingsError:
        return
    assert not found.settings
    assert found.refused


def test_no_such_file(tmp_path: Path) -> None:
    """A missing file is named."""
    with pytest.raises(NotFoundError, match=r"none\.yaml"):
        translated_file(tmp_path / "none.yaml")


_COMMAND = (
    "vllm",
    "serve",
    "docker",
    "run",
    "-e",
    "A=$(id)",
    "--",
    "-",
    "--a=b",
    "--dtype",
    "bash",
)
_MARKUP = (
    "'",
    '"',
    "\\",
    "-c",
    "&&",
    "inference:",
    "{",
    "*a",
    "\n",
    "\x00",
    "!!python/name:os.system",
)
_SHELL = (
    *(
        "$A",
        "${A:-",
        "${A[@]}",
        "}",
        "$(",
        "$((",
        "`",
        '"$@"',
        "A=(",
        "A+=(",
        "A=$A$A",
        "export A=1",
    ),
    *("(", ")", "{", "if", "fi", "for i in", "do", "done", "case a in", "esac", ";;", "[[", "]]"),
    *(">", "2>&1", "<<E", "E\n", "|", "&", ";", "#", "eval", "\ue000", "\ue001"),
)
_TASK = (
    *("services:\n a:\n  ", "type: service\n", "run: |\n ", "commands:\n - ", "image: vllm\n"),
    *("apiVersion: v1\nkind: Pod\n", "containers:\n - args: [", "]\n", "env:\n - ", "---\n"),
)
_WORDS = st.sampled_from((*_COMMAND, *_MARKUP, *_SHELL, *_TASK, "a/b"))


@given(words=st.lists(_WORDS | st.text(max_size=12), max_size=15))
def test_any_text(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    """Whatever the file holds, it is translated or refused, and nothing in it is run."""
    file = tmp_path_factory.mktemp("any") / "foreign.txt"
    file.write_bytes(" ".join(words).encode("utf-8", "surrogatepass"))
    try:
        found = translated_file(file)
    except TpuflexError:
        return
    assert found.settings or found.refused or found.as_is
