"""Stack files as somebody hostile, or very unlucky, would write them: one for each number.

Most are right but for a few places, so that what is wrong with a value is judged, and not only
what is wrong with the file. Many of the values would do something if a shell read them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from tpuflex.catalog.flags import flag_rules, known_flags, vllm_interface
from tpuflex.settings.model import (
    ModelSettings,
    SliceSettings,
    StackSettings,
    Timeouts,
    WeightsSettings,
)
from tpuflex.settings.network import NetworkSettings
from tpuflex.settings.secrets import SecretsSettings
from tpuflex.settings.serving import ServingFlags, ServingSettings

#: Appears wherever a shell has run one of the texts below.
CANARY = "canary-fired"
#: Stands for a secret that somebody has put where none belongs.
SECRET = "hf_canary-secret-5772156649"

_TPU = "sha256:19a1a0526476f902eb83e1057f3d8938f35b457dd7716a30e9ab4f7bee90d507"
_CPU = "sha256:82fe761a6afadfcfa20344c2fcd3f20004a0eb1ab2e51f6a009dfac30e07231f"
_GOOGLE: dict[str, Any] = {
    "cloud": "google",
    "project": "acme-serving",
    "slice": {"zones": ["us-east5-a"], "accelerator_type": "v6e-4", "max_run_duration": "4h"},
    "model": {"name": "acme/model", "weights": {"source": "models/x"}},
    "serving": {
        "image": f"us-east5-docker.pkg.dev/acme-serving/dockerhub/vllm/vllm-tpu@{_TPU}",
        "flags": {"max_model_len": 2048, "additional_config": {"a": "b"}},
        "env": {"OPTION": "one"},
    },
}
_EMBEDDED: dict[str, Any] = {
    **_GOOGLE,
    "cloud": "embedded",
    "slice": {**_GOOGLE["slice"], "accelerator_type": "v6e-1"},
    "serving": {"image": f"tpuflex/vllm-cpu@{_CPU}", "flags": {"dtype": "bfloat16"}},
}

#: What a shell would run, split, expand or take for an option.
SHELL = (
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"; touch {CANARY};",
    f"| touch {CANARY}",
    f"&& touch {CANARY}",
    f"> {CANARY}",
    f"<(touch {CANARY})",
    f"\ntouch {CANARY}\n",
    f"'; touch {CANARY}; '",
    f'"; touch {CANARY}; "',
    f"${{IFS}}touch${{IFS}}{CANARY}",
    f"$((a[$(touch {CANARY})]))",
    f"a[$(touch {CANARY})]",
    f"x=$(touch {CANARY})",
    f"\\$(touch {CANARY})",
    "two words",
    "*",
    "~/x",
    "!!",
    "%s%n",
    "-v",
    "--privileged",
    "--volume=/:/host",
    "--api-key",
    "--middleware=os.system",
    "--config=/etc/passwd",
)
#: What a terminal, a YAML reader, a URL, a path or a template would take for more than text.
ODD = (
    "",
    " ",
    "\0",
    "a\0b",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\u202etxt.exe",
    "\u2028",
    "\r\nX-Header: x",
    "{{ 7 * 7 }}",
    "{% for x in y %}",
    "../../etc/passwd",
    "/etc/shadow",
    "file:///etc/passwd",
    "http://169.254.169.254/computeMetadata/v1/",
    "gs://other/bucket",
    "pypi://x==1/../../y.gguf",
    "org/code--modeling.Model",
    "os.system",
    "https://user:pass@example.com",
    "v6e-4",
    "4h",
    "0.0.0.0/0",
    "auto",
    "on",
    "null",
    "1e9",
    "0x10",
    "Ünïcödé",
    "x" * 5000,
    SECRET,
)
_NUMBERS = (-1, 0, 1, 65536, 2**31, 2**63, 2**64, 10**30, 1e308, -0.0, float("nan"), float("inf"))
_SHAPES: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: [],
    lambda: {},
    lambda: [None, {}, []],
    lambda: {"secure": "v1:abc"},
    lambda: {f"$(touch {CANARY})": 1},
    lambda: ["x"] * 3000,
    lambda: {str(number): number for number in range(500)},
    lambda: _nested(40),
)
_NAMES = (
    *("LD_PRELOAD", "PATH", "BASH_ENV", "PYTHONPATH", "VLLM_API_KEY", "HF_TOKEN", "MY_PASSWORD"),
    *("HTTPS_PROXY", "VLLM_SERVER_DEV_MODE", "VLLM_PLUGINS", "MODEL_IMPL_TYPE", "TPUFLEX_ROOT"),
    *("OPTION", "A", "VLLM_TPU_BUCKET_PADDING_GAP", "lower", "A B", "A=B", f"$(touch {CANARY})"),
)
_ROW = {"source": {"where": "x", "date": "2026-11-22"}}
_CATALOG_KINDS = ("accelerators", "zones", "prices", "models", "images")
_PLACES = (
    *StackSettings.model_fields,
    *(f"slice.{name}" for name in SliceSettings.model_fields),
    *(f"slice.timeouts.{name}" for name in Timeouts.model_fields),
    *(f"model.{name}" for name in ModelSettings.model_fields),
    *(f"model.weights.{name}" for name in WeightsSettings.model_fields),
    *(f"network.{name}" for name in NetworkSettings.model_fields),
    *(f"secrets.{name}" for name in SecretsSettings.model_fields),
    *(f"serving.{name}" for name in ServingSettings.model_fields),
    *(f"serving.flags.{name}" for name in ServingFlags.model_fields),
    *(f"catalog.{kind}" for kind in _CATALOG_KINDS),
)
#: Where a key that is none is put.
_SECTIONS = ((), ("slice",), ("serving",), ("serving", "flags"), ("model", "weights"))
#: Places whose values are free text, so that a hostile one is served and has to arrive unharmed.
_FREE = (
    "serving.env.OPTION",
    "serving.flags.additional_config.a",
    "serving.flags.default_chat_template_kwargs.a",
    "serving.flags.speculative_config.prompt_lookup",
    "slice.rerun",
    "model.weights.source",
)


@dataclass(frozen=True, slots=True)
class HostileStack:
    """One stack file.

    Attributes:
        text: its bytes.
        places: the keys that were changed; empty where the text itself was damaged.
        blows: how many hostile values it holds.
    """

    text: bytes
    places: tuple[str, ...]
    blows: int


def hostile_stack(seed: int, number: int) -> HostileStack:
    """The stack file with that number of the series of ``seed``."""
    dice = random.Random(f"{seed}/{number}")  # noqa: S311 - reproducible, not secret
    sections = copy.deepcopy(dice.choice((_GOOGLE, _EMBEDDED)))
    places = [_change(dice, sections) for _ in range(dice.choice((1, 1, 1, 2, 3, 5)))]
    config = {f"tpuflex:{name}": value for name, value in sections.items()}
    if dice.random() < 0.05:
        stranger = dice.choice((*SHELL, *ODD))
        config[stranger] = dice.choice(ODD)
        places.append(stranger if stranger.strip() else "config")
    text = yaml.safe_dump({"config": config}, allow_unicode=dice.random() < 0.5).encode()
    if dice.random() < 0.2:
        return HostileStack(_damaged(dice, text), (), len(places) + 1)
    return HostileStack(text, tuple(places), len(places))


def _change(dice: random.Random, sections: dict[str, Any]) -> str:
    """Change one place of ``sections``; its key."""
    kind = dice.random()
    place: tuple[str, ...]
    value: object
    if kind < 0.4:
        place, value = _path(dice.choice(_FREE)), dice.choice((*SHELL, *ODD))
    elif kind < 0.5:
        place, value = ("serving", "extra_args"), _extra_args(dice)
    elif kind < 0.6:
        place, value = ("serving", "env", dice.choice(_names())), _value(dice)
    elif kind < 0.7:
        place = (*dice.choice(_SECTIONS), dice.choice((*SHELL, *ODD, *_flags())))
        value = _value(dice)
    elif kind < 0.75:
        row = {**_ROW, dice.choice(("name", "zone", "digest", "chips", "x")): _value(dice)}
        place, value = ("catalog", dice.choice(_CATALOG_KINDS)), [row]
    else:
        place, value = _path(dice.choice(_PLACES)), _value(dice)
    _put(sections, place, value)
    return f"tpuflex:{'.'.join(place)}"


def _path(key: str) -> tuple[str, ...]:
    return tuple(key.split("."))


def _put(sections: dict[str, Any], place: tuple[str, ...], value: object) -> None:
    """Set ``place``, unless one of its parents was changed already and is no section any more."""
    here: Any = sections
    for parent in place[:-1]:
        here = here.setdefault(parent, {}) if isinstance(here, dict) else None
    if isinstance(here, dict):
        here[place[-1]] = value


def _value(dice: random.Random) -> Any:
    kind = dice.random()
    if kind < 0.35:
        return dice.choice(SHELL)
    if kind < 0.65:
        return dice.choice(ODD)
    if kind < 0.8:
        return dice.choice(_NUMBERS)
    if kind < 0.9:
        return [dice.choice((*SHELL, *ODD)) for _ in range(dice.randint(1, 4))]
    return dice.choice(_SHAPES)()


def _extra_args(dice: random.Random) -> list[Any]:
    """A command line of real flags, among them words that want to be others."""
    words: list[Any] = []
    for _ in range(dice.randint(1, 4)):
        words.append(dice.choice((f"--{dice.choice(_flags())}", f"--{dice.choice(_harmless())}")))
        if dice.random() < 0.7:
            words.append(dice.choice((*SHELL, *ODD, "1", "64", "fcfs", "INFO", 1, None)))
    return words


def _flags() -> tuple[str, ...]:
    return (*known_flags(), *(name for rule in flag_rules().flags for name in rule.flags))


def _harmless() -> tuple[str, ...]:
    return tuple(name for rule in flag_rules().flags if rule.accepted for name in rule.flags)


def _names() -> tuple[str, ...]:
    return (*_NAMES, *vllm_interface().tpu_variables)


def _damaged(dice: random.Random, text: bytes) -> bytes:
    """``text`` with something done to it that YAML, or a decoder, has to notice."""
    place = dice.randrange(len(text))
    line = text.find(b"\n", place) + 1
    return dice.choice(
        (
            lambda: text[:place],
            lambda: text[:place] + bytes([dice.randrange(256)]) + text[place + 1 :],
            lambda: text[:place] + b"\xff\xfe\xc3" + text[place:],
            lambda: b"\xef\xbb\xbf" + text,
            lambda: text[:line] + b"\t- x\n" + text[line:],
            lambda: text + text.partition(b"\n")[2],
            lambda: text + b"---\n" + text,
            lambda: text + b"  &a x: *a\n",
            lambda: text + b"  tpuflex:network: &a [*a]\n",
            lambda: text + b"  tpuflex:network: {<<: {egress: internet}}\n",
            lambda: text + b"  ? [1, 2]\n  : x\n",
            lambda: text + f"  x: !!python/object/apply:os.system [touch {CANARY}]\n".encode(),
            lambda: text + b"  tpuflex:secrets: !!set {a, b}\n",
            lambda: text + _bomb(),
            lambda: b"%YAML 9.9\n--- \n" + text,
            lambda: b"",
            lambda: b"[" * 3000,
            lambda: text.decode().encode("utf-16"),
        )
    )()


def _bomb() -> bytes:
    lines = ["  a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return ("\n".join(lines) + "\n").encode()


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value
