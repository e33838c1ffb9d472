"""vLLM's own argument parser takes every flag that tpuflex can pass to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.machines.images import embedded_image, installed_image
from tests.checkpoints import smollm2
from tests.planning.test_memory_flags import CONTEXTS
from tests.unit.test_vllm_refusals import TOGETHER
from tpuflex.boot.config import boot_config, serving_args
from tpuflex.catalog.flags import (
    KnownFlag,
    VllmInterface,
    flag_rules,
    known_flags,
    vllm_interface,
)
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

#: Reads a list of command lines, and writes for each whether the parser takes it, and why not;
#: then what contributing/vllm_flags.py makes of this vLLM, the names in its tables, and which
#: values each variable can read.
_PROGRAM = """
import contextlib, importlib.util, io, json, os, sys, typing
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
spec = importlib.util.spec_from_file_location("vllm_flags", sys.argv[1])
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
from vllm.config.speculative import SpeculativeConfig, SpeculativeMethod
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
names = {
    "tool_call_parser": ToolParserManager.list_registered(),
    "reasoning_parser": ReasoningParserManager.list_registered(),
    "quantization": QUANTIZATION_METHODS,
    "speculative_config": [
        name for name, field in SpeculativeConfig.__dataclass_fields__.items() if field.init
    ],
    "speculative_config.method": typing.get_args(SpeculativeMethod),
}
readable = {}
for name, read in vllm.envs.environment_variables.items():
    before = os.environ.get(name)
    for value in ("7", "0.5", "no-such-word"):
        os.environ[name] = value
        try:
            read()
        except Exception:
            continue
        readable.setdefault(name, []).append(value)
    os.environ.pop(name) if before is None else os.environ.__setitem__(name, before)
json.dump({
    "said": said,
    "version": vllm.version.__version__,
    "flags": script.parser_flags(),
    "variables": script.vllm_variables(),
    "names": {path: sorted(each) for path, each in names.items()},
    "readable": readable,
}, result)
"""
#: What a variable of a type can read of the values that the program tries.
_READABLE = {
    "int": ["7"],
    "float": ["7", "0.5"],
    "text": ["7", "0.5", "no-such-word"],
    "choice": [],
    "choices": [],
}

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


def answers(lines: Sequence[Sequence[str]], program: str, argument: str) -> Any:
    """What ``program`` says of this vLLM, and of each command line."""
    assert IMAGE is not None
    done = subprocess.run(
        [str(IMAGE.python), "-P", "-c", program, argument],
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
    return json.loads(done.stdout)


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
    """Every setting, every accepted further flag, and the arguments of every stack are taken; and
    what the catalog says of this vLLM is what it is."""
    lines = {**flag_lines(), **extra_lines()}
    for path in STACKS:
        settings = load_stack_file(path, deploying=False).settings
        config = boot_config(settings, Names("p", "s", "e"), "0" * 64)
        lines[path.name] = config.serving.args
    removed = [name for rule in flag_rules().flags for name in rule.flags if rule.refused]
    removed = [name for name in removed if name not in known_flags()]

    refusals = [(f"--{name}", "1") for name in removed]
    script = str(ROOT / "contributing" / "vllm_flags.py")
    answer = answers([*lines.values(), *refusals], _PROGRAM, script)
    said = answer["said"]

    assert {what: text for what, text in zip(lines, said, strict=False) if text} == {}
    gone = ("unrecognized arguments", "ambiguous option")  # --device is now a part of two others
    assert all(any(word in text for word in gone) for text in said[len(lines) :])
    # The data file is this version's, made by the script from this vLLM.
    interface = vllm_interface()
    assert interface.vllm_version in answer["version"]
    made = VllmInterface.model_validate(
        {**interface.model_dump(), "flags": answer["flags"], "vllm_variables": answer["variables"]}
    )
    assert made == interface
    lists = interface.lists_of(interface.vllm_version)
    assert lists is not None
    assert {path: sorted(names) for path, names in lists.names.items()} == answer["names"]
    # Each variable reads what its row says. These are set by tpuflex itself, or documents.
    differ = {
        name
        for name, row in interface.vllm_variables.items()
        if answer["readable"].get(name, []) != _READABLE[row.type]
    }
    assert differ == {
        "VLLM_PORT",
        "VLLM_HUMMING_INPUT_QUANT_CONFIG",
        "VLLM_HUMMING_ONLINE_QUANT_CONFIG",
    }


#: Reads a list of command lines, and writes at what the engine's configuration ends for each.
_ENGINE = """
import json, os, sys
result = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.usage.usage_lib import UsageContext
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
said = []
for arguments in json.load(sys.stdin):
    try:
        chosen = parser.parse_args(["--model", sys.argv[1], *arguments])
        validate_parsed_serve_args(chosen)
        AsyncEngineArgs.from_cli_args(chosen).create_engine_config(UsageContext.OPENAI_API_SERVER)
        said.append("")
    except Exception as error:
        said.append(str(error))
json.dump([said], result)
"""
#: Flags at which the server ends later than that, or a model with images only.
_LATER = {"--seed", "--tokenizer-mode", "--mm-shm-cache-max-object-size-mb"}


def test_vllm_itself_refuses_what_is_refused(tmp_path: Path) -> None:
    """Each row about limits and flags that exclude each other is one at which vLLM ends; so is a
    model without experts that are to be spread."""
    model = smollm2().write(tmp_path / "model")
    lines = [
        (*serving_args(ServingFlags.model_validate(flags), 1), *arguments)
        for arguments, flags, _, _ in TOGETHER
        if "load_format" not in flags and not _LATER.intersection(arguments)
    ]

    said, *_ = answers([(), *lines, ("--enable-expert-parallel",)], _ENGINE, str(model))

    assert said[0] == ""
    assert [line for line, text in zip(lines, said[1:], strict=False) if not text] == []
    assert "Number of experts" in said[-1]


def test_vllm_derives_the_longest_context(tmp_path: Path) -> None:
    """Each context that `hf_overrides` make is the longest that vLLM takes, and it ends at RoPE
    without a type."""
    whole = smollm2()
    config = {**whole.config, "max_position_embeddings": 40960}
    model = replace(whole, config=config).write(tmp_path / "model")
    overridden = [(overrides, longest) for overrides, env, longest in CONTEXTS if not env]

    def line(overrides: dict[str, object], length: int) -> tuple[str, ...]:
        # As vLLM takes them: what ends it the settings refuse.
        flags = ServingFlags.model_construct(hf_overrides=overrides, max_model_len=length)
        return serving_args(flags, 1)

    lines = [line(each, longest + more) for each, longest in overridden for more in (0, 1)]
    untyped = line({"rope_scaling": {"type": "yarn", "factor": 4.0}}, 4096)
    said, *_ = answers([*lines, untyped], _ENGINE, str(model))

    assert said[:-1:2] == [""] * len(overridden)
    assert all("is greater than the derived max_model_len" in text for text in said[1:-1:2])
    assert said[-1] == "'rope_type'"
