"""Stack files and Pulumi configuration are read, and all problems reported at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pulumi
import pytest
from pulumi.runtime.config import set_all_config

from tests.unit.stack_sections import TPU_IMAGE, sections
from tpuflex.errors import NotFoundError, SettingsError
from tpuflex.settings.load import load_pulumi_config, load_stack_file, parse
from tpuflex.settings.slice import SliceSettings

GOOD = f"""\
encryptionsalt: v1:abc
config:
  gcp:region: us-east5
  tpuflex:cloud: google
  tpuflex:project: acme-serving
  tpuflex:slice:
    zones: [us-east5-a]
    accelerator_type: v6e-4
    max_run_duration: 4h
  tpuflex:model:
    name: google/gemma-4-E4B-it
  tpuflex:serving:
    image: {TPU_IMAGE}
    env:
      A: "1"
"""

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_configuration_left() -> Iterator[None]:
    """The engine's configuration is the process's: the next test has none."""
    yield
    set_all_config({}, [])


def write(directory: Path, text: str, stack: str = "prod") -> Path:
    """A stack file with ``text``."""
    path = directory / f"Pulumi.{stack}.yaml"
    path.write_text(text)
    return path


def refused(path: Path) -> list[str]:
    """The lines of the error that ``path`` gives, without the indent."""
    with pytest.raises(SettingsError) as caught:
        load_stack_file(path)
    return [line.strip() for line in str(caught.value).splitlines()]


def test_a_good_file_is_read(tmp_path: Path) -> None:
    """Settings come out typed; keys of other namespaces and the engine's own are left alone."""
    path = write(tmp_path, GOOD)

    loaded = load_stack_file(path)

    assert loaded.stack == "prod"
    assert loaded.source == path
    expected = sections({"serving.env": {"A": "1"}, "model.weights": None})
    assert loaded.settings == parse(expected, "test")


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    """Each finding names key, value, line and remedy; none is left for the next try."""
    path = write(
        tmp_path,
        """\
config:
  tpuflex:cloud: gogle
  tpuflex:projct: acme-serving
  tpuflex:slice:
    zone: us-east5-a
    accelerator_type: v6e-3
    max_run_duration: 8 days
  tpuflex:model:
    name: 4
  tpuflex:serving:
    image: vllm/vllm-tpu:latest
    flags:
      max_model_len: "4096"
      swap_space: 4
  network: {}
""",
    )

    assert refused(path) == [
        "Pulumi.prod.yaml has 10 problems:",
        'tpuflex:cloud: "gogle" is not one of the choices (line 2). Write google or embedded.',
        "tpuflex:slice.accelerator_type: unknown accelerator type 'v6e-3' (line 6). "
        "Nearest: v6e-32, v6e-8, v6e-4.",
        "tpuflex:slice.max_run_duration: '8 days' is not a duration (line 7). "
        "Write it with its unit, such as 4h or 90m.",
        "tpuflex:slice.zone: unknown key (line 5). Write zones: [ZONE].",
        "tpuflex:model.name: 4 is not text (line 9). Write text (in quotes).",
        'tpuflex:serving.image: "vllm/vllm-tpu:latest" cannot be used (line 11). '
        "Write NAME@sha256:DIGEST with all 64 digits; a tag can be moved under a running stack "
        "(`docker buildx imagetools inspect NAME:TAG` shows the digest).",
        'tpuflex:serving.flags.max_model_len: "4096" is not a whole number (line 13). '
        "Write a whole number.",
        "tpuflex:serving.flags.swap_space: --swap-space was removed from vLLM, which will not "
        "start with it (line 14). Remove it: preempted requests are computed again.",
        "network: has no namespace (line 15). Write tpuflex:network.",
        "tpuflex:projct: unknown key (line 3). Did you mean tpuflex:project?",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "encryptionsalt: v1:x\n",
        "config:\n  aws:region: eu-west-1\n",
        "config:\n  tpuflex:project: acme-prod-1\n  tpuflex:embedded: true\n",
        "config:\n  tpuflex:project: acme-prod-1\n  gcp:region: us-east5\n",
        "config:\n  gcp:zone: us-east5-a\n",
        "config:\n  tpuflex-demo:slice: a\n  tpuflex2:replicas: 3\n",
    ],
)
def test_the_stack_file_of_another_program_is_none_of_ours(tmp_path: Path, text: str) -> None:
    """What says nothing of an endpoint, or configures the provider alone, is no stack of tpuflex:
    the keys that it lacks are no help."""
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(text)

    with pytest.raises(NotFoundError, match="not a stack file of tpuflex"):
        load_stack_file(file)


@pytest.mark.parametrize(
    ("flag", "remedy"),
    [
        ("enable_reasoning", "reasoning_parser in tpuflex:serving.flags turns reasoning on"),
        ("device", "the image is made for the chips"),
        ("num_scheduler_steps", "vLLM has one scheduler"),
        ("rope_scaling", "Write hf_overrides in tpuflex:serving.flags"),
        ("enable_prompt_caching", "Did you mean enable_prefix_caching?"),
        ("enable_something", "Remove it."),
    ],
)
def test_flags_that_vllm_does_not_have(flag: str, remedy: str) -> None:
    """One that it once had is explained, and a letter or two apart is no other flag."""
    changed = sections()
    changed["serving"] = {"image": TPU_IMAGE, "flags": {flag: True}}

    with pytest.raises(SettingsError) as caught:
        parse(changed, "a file")

    (finding,) = caught.value.findings
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "",
            "Pulumi.prod.yaml: is empty. Delete the file, and let"
            " `tpuflex init --stack prod` write it.",
        ),
        (
            "# nothing yet\nconfig:\n",
            "config: is empty (line 2). Delete the file, and let"
            " `tpuflex init --stack prod` write it.",
        ),
        (
            GOOD.replace("config:", "confg:"),
            "confg: unknown key (line 2). Did you mean config?",
        ),
    ],
)
def test_a_file_without_settings_says_so_once(tmp_path: Path, text: str, expected: str) -> None:
    """An empty file, and one whose settings stand below a misspelt key, have one problem."""
    assert refused(write(tmp_path, text)) == ["Pulumi.prod.yaml has 1 problem:", expected]


def test_flags_are_taken_with_dashes(tmp_path: Path) -> None:
    """vLLM's command line writes max-model-len; both ways are one setting, and a finding about it
    has its line. Written in both ways it is refused. Tokens have suffixes, as there."""
    flags = "    flags:\n      max-model-len: 4K\n      enable_prefix_caching: true\n"
    loaded = load_stack_file(write(tmp_path, GOOD + flags)).settings.serving.flags
    assert (loaded.max_model_len, loaded.enable_prefix_caching) == (4096, True)

    twice = refused(write(tmp_path, GOOD + flags + "      max_model_len: 4096\n"))
    wrong = refused(write(tmp_path, GOOD + flags.replace("4K", "many")))
    unknown = refused(write(tmp_path, GOOD + flags.replace("max-model-len", "max-model-lenght")))

    assert twice[1:] == [
        "tpuflex:serving.flags.max-model-len: is max_model_len written again (line 17)."
        " Remove one of them."
    ]
    assert wrong[1].startswith('tpuflex:serving.flags.max_model_len: "many" is not a whole number')
    assert "(line 17)" in wrong[1]
    assert unknown[1].endswith("unknown key (line 17). Did you mean max_model_len?")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("config: [", "is not YAML"),
        ("config:\n\ttpuflex:cloud: x", "is not YAML"),
        ("- a", "the file is not a section"),
        ("config: 3", "is not a section"),
        ("tpuflex:cloud: google", "stands outside of config"),
        ("config:\n  3: x", "3 cannot be a key"),
        (GOOD + "  tpuflex:cloud: google\n", "is written twice, first in line 4 (line 16)"),
        (GOOD + "  tpuflex:network: &a\n    allowed_cidrs: *a\n", "contains itself"),
        (GOOD + "  other:x: !!bool maybe\n", "holds a value that cannot be read"),
        (GOOD + "  other:x: 1" + ":1" * 9999 + ".5\n", "holds a value that cannot be read"),
        ("[" * 9999, "is nested too deeply"),
        (GOOD + "#" * 200_000, "is longer than 131072 characters"),
        (GOOD + "  tpuflex:secrets:\n", "is empty"),
        (GOOD.replace("4h", "2026-01-01"), "was read as a date"),
        (GOOD.replace("4h", "2026-13-41"), "cannot be read"),
        (GOOD.replace('"1"', ".nan"), "not a number that can be used"),
    ],
)
def test_odd_files_get_a_sentence(tmp_path: Path, text: str, expected: str) -> None:
    """What YAML allows and a stack file does not gives a finding, never a traceback."""
    assert any(expected in line for line in refused(write(tmp_path, text)))


def test_encrypted_values_are_refused(tmp_path: Path) -> None:
    """Secrets do not pass through Pulumi; the message says where they go instead."""
    path = write(tmp_path, GOOD.replace('A: "1"', "A:\n        secure: v1:xyz"))

    (_, line) = refused(path)

    assert line.startswith("tpuflex:serving.env.A: is an encrypted value (line 15).")
    assert "Secret Manager" in line
    assert "xyz" not in line


def test_a_missing_file_names_the_stacks_there_are(tmp_path: Path) -> None:
    """The error for a misspelt stack lists the existing ones."""
    write(tmp_path, GOOD, "dev")
    write(tmp_path, GOOD, "prod")

    with pytest.raises(NotFoundError) as caught:
        load_stack_file(tmp_path / "Pulumi.pord.yaml")

    assert str(caught.value.hint) == "Stacks here: dev, prod."


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    """A file that is not text gives a finding."""
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    assert any("cannot be read" in line for line in refused(path))


def test_sections_may_be_settings_objects() -> None:
    """Library users may build sections from the settings classes."""
    plain = parse(sections(), "test")
    mapping = {**sections(), "slice": SliceSettings(**plain.slice.model_dump())}

    assert parse(mapping, "test") == plain


def test_engine_configuration_reads_like_the_file(tmp_path: Path) -> None:
    """The engine passes structured values as JSON; the settings are the same as the file's."""
    set_all_config(
        {
            "tpuflex:cloud": "google",
            "tpuflex:project": "acme-serving",
            "tpuflex:slice": '{"accelerator_type":"v6e-4","max_run_duration":"4h",'
            '"zones":["us-east5-a"]}',
            "tpuflex:model": '{"name":"google/gemma-4-E4B-it"}',
            "tpuflex:serving": json.dumps({"image": TPU_IMAGE, "env": {"A": "1"}}),
            "gcp:region": "us-east5",
        },
        [],
    )

    settings = load_pulumi_config(pulumi.Config("tpuflex"))

    assert settings == load_stack_file(write(tmp_path, GOOD)).settings


def test_engine_secrets_are_refused_without_their_value() -> None:
    """The engine decrypts before the program runs: the value must not reach the message."""
    set_all_config({"tpuflex:serving": '{"image":"canary-5f"}'}, ["tpuflex:serving"])

    with pytest.raises(SettingsError) as caught:
        load_pulumi_config(pulumi.Config("tpuflex"))

    assert "tpuflex:serving: holds an encrypted value" in str(caught.value)
    assert "canary-5f" not in str(caught.value)


@pytest.mark.parametrize("value", ["not json", "[1", "3"])
def test_engine_values_of_the_wrong_kind_are_findings(value: str) -> None:
    """A section given as text is a finding under its key."""
    set_all_config({"tpuflex:slice": value}, [])

    with pytest.raises(SettingsError) as caught:
        load_pulumi_config(pulumi.Config("tpuflex"))

    assert any(finding.key == "tpuflex:slice" for finding in caught.value.findings)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("queue_timeout: 6h", "queue_timeout: unknown key (line 5). Write queue in"),
        ("renew: 6h", "renew: unknown key (line 5). Did you mean renew_before?"),
    ],
)
def test_a_mistake_in_the_slice_is_reported(tmp_path: Path, line: str, expected: str) -> None:
    """A key that is none is refused by its name, line and remedy."""
    text = (ROOT / "stacks" / "Pulumi.dev.yaml").read_text()
    config = text[text.index("config:") :].replace(
        "  tpuflex:slice:\n", f"  tpuflex:slice:\n    {line}\n"
    )

    first, *findings = refused(write(tmp_path, config))

    assert first.endswith("has 1 problem:")
    assert findings[0].startswith(f"tpuflex:slice.{expected}")


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("gcp:project", "another", "Write tpuflex:project. Remove this key."),
        ("gcp:region", "us-west1", "Write tpuflex:slice.zones;"),
        ("gcp:zone", "us-east5-b", "Write tpuflex:slice.zones;"),
        ("gcp:defaultLabels", "{team: search}", "pass a gcp.Provider"),
        ("gcp:impersonateServiceAccount", "x@y", "pass a gcp.Provider"),
    ],
)
def test_d12_keys_of_the_gcp_provider_are_not_ignored(
    tmp_path: Path, key: str, value: str, remedy: str
) -> None:
    """What the endpoint's own provider does not take is refused, in the file and in the
    engine's configuration, unless it says the same again; `status` and `down` go on."""
    text = GOOD.replace("  gcp:region: us-east5\n", f"  {key}: {value}\n")
    assert key in text

    with pytest.raises(SettingsError) as caught:
        load_stack_file(write(tmp_path, text))
    load_stack_file(write(tmp_path, text), deploying=False)
    set_all_config({key: value, "tpuflex:slice": "{}"}, [])
    with pytest.raises(SettingsError) as running:
        load_pulumi_config(pulumi.Config("tpuflex"))

    (finding,) = caught.value.findings
    assert finding.key.startswith(key)
    assert remedy in finding.remedy
    assert key in [finding.key for finding in running.value.findings]


def test_d12_what_says_the_same_again_is_no_fault(tmp_path: Path) -> None:
    """Project, region and zone may be repeated for the rest of a program."""
    same = "  gcp:project: acme-serving\n  gcp:region: us-east5\n  gcp:zone: us-east5-a\n"

    text = GOOD.replace("  gcp:region: us-east5\n", same)

    assert (
        load_stack_file(write(tmp_path, text)).settings
        == load_stack_file(write(tmp_path, GOOD)).settings
    )
