"""vLLM's own argument parser takes every flag that tpuflex can pass to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.images import embedded_image, installed_image
from tpuflex.boot.config import boot_config, serving_args
from tpuflex.catalog.flags import KnownFlag, flag_rules, known_flags, vllm_interface
from tpuflex.naming import Names
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.serving import ServingFlags

ROOT = Path(__file__).parents[3]
IMAGE = installed_image(embedded_image(), ROOT / ".tpuflex")
STACKS = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        IMAGE is None, reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]

#: Reads a list of command lines, and writes for each whether the parser takes it, and why not.
_PROGRAM = """
import contextlib, io, json, os, sys
result = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
import vllm.version, vllm.envs
parser = make_arg_parser(FlexibleArgumentParser())
said = []
for arguments in json.load(sys.stdin):
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            parser.parse_args(["--model", "/weights", *arguments])
        said.append("")
    except SystemExit:
        said.append(errors.getvalue().strip().splitlines()[-1])
names = [action.option_strings for action in parser._actions if action.option_strings]
variables = sorted(vllm.envs.environment_variables)
json.dump([said, vllm.version.__version__, names, variables], result)
"""

#: A value of each setting that takes something else than a number or a switch.
_VALUES: dict[str, Any] = {
    "dtype": "bfloat16",
    "kv_cache_dtype": "fp8",
    "quantization": "compressed-tensors",
    "safetensors_load_strategy": "prefetch",
    "load_format": "runai_streamer",
    "tool_call_parser": "gemma4",
    "reasoning_parser": "gemma4",
    "generation_config": "vllm",
    "gpu_memory_utilization": 0.9,
    "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
    "additional_config": {"quantization": {"qwix": {"rules": []}}},
    "hf_overrides": {"architectures": ["Gemma4ForCausalLM"]},
    "override_generation_config": {"temperature": 0.5},
    "default_chat_template_kwargs": {"enable_thinking": True},
    "limit_mm_per_prompt": {"image": 4, "audio": 0},
    "chat_template": "chat_template.jinja",
}


def answers(lines: Sequence[Sequence[str]]) -> tuple[list[str], str, list[list[str]], list[str]]:
    """What the parser says of each command line; vLLM's version, flags and variables."""
    assert IMAGE is not None
    done = subprocess.run(
        [str(IMAGE.python), "-P", "-c", _PROGRAM],
        input=json.dumps([list(line) for line in lines]),
        env={
            **os.environ,
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            "VLLM_LOGGING_LEVEL": "ERROR",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=240,
        check=True,
    )
    said, version, names, variables = json.loads(done.stdout)
    return said, version, names, variables


def flag_lines() -> dict[str, tuple[str, ...]]:
    """A command line for each setting of ``ServingFlags``; switches are switched both ways."""
    lines: dict[str, tuple[str, ...]] = {}
    for name, field in ServingFlags.model_fields.items():
        switch = name not in _VALUES and "bool" in str(field.annotation)
        for value in (True, False) if switch else (_VALUES.get(name, 1),):
            flags = ServingFlags.model_validate({name: value})
            lines[f"{name}: {value}"] = serving_args(flags, 1) or ("--chat-template", "/w/x.jinja")
    return lines


def extra_lines() -> dict[str, tuple[str, ...]]:
    """A command line for each flag that `serving.extra_args` accepts, with each of its choices."""
    lines: dict[str, tuple[str, ...]] = {}
    for rule in flag_rules().flags:
        for name in rule.flags if rule.accepted else ():
            for value in _values(known_flags()[name], rule.values):
                lines[f"{name} {value}"] = (f"--{name}", value) if value else (f"--{name}",)
    return lines


def _values(flag: KnownFlag, pattern: str | None) -> tuple[str, ...]:
    if flag.values == "none":
        return ("",)
    if pattern is not None:
        words = (*pattern.split("|"), "0.31", "1")
        return tuple(word for word in words if re.fullmatch(pattern, word))
    return flag.choices or ({"int": "1", "float": "0.5"}.get(flag.type or "", "word"),)


def test_the_parser_takes_what_we_pass() -> None:
    """Every setting, every accepted further flag, and the arguments of every stack are taken."""
    lines = {**flag_lines(), **extra_lines()}
    for path in STACKS:
        settings = load_stack_file(path, deploying=False).settings
        config = boot_config(settings, Names("p", "s", "e"), "0" * 64)
        lines[path.name] = config.serving.args
    removed = [name for rule in flag_rules().flags for name in rule.flags if rule.refused]
    removed = [name for name in removed if name not in known_flags()]

    refusals = [(f"--{name}", "1") for name in removed]
    said, version, names, variables = answers([*lines.values(), *refusals])

    assert {what: text for what, text in zip(lines, said, strict=False) if text} == {}
    assert all("unrecognized arguments" in text for text in said[len(lines) :])
    # The data file is this version's.
    assert vllm_interface().vllm_version in version
    assert sorted(names) == sorted(list(flag.names) for flag in vllm_interface().flags)
    assert variables == list(vllm_interface().vllm_variables)
