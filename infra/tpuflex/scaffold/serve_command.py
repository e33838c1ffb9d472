"""A ``vllm serve`` command line, alone or in ``docker run``, word by word."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import yaml

from tpuflex.catalog.flags import known_flags, plain_name
from tpuflex.errors import Finding, SettingsError
from tpuflex.scaffold.translation import AsIs, Refused, Rule, Sets, Translation, refused
from tpuflex.settings.extra_args import extra_args_findings
from tpuflex.settings.serving import ServingFlags
from tpuflex.settings.stack_yaml import RefusedYamlError, read_yaml

#: vLLM's short options (vllm/engine/arg_utils.py of 0.32.0).
_SHORT = {
    "-tp": "tensor_parallel_size",
    "-q": "quantization",
    "-pp": "pipeline_parallel_size",
    "-dp": "data_parallel_size",
    "-ep": "enable_expert_parallel",
    "-cc": "compilation_config",
    "-O": "optimization_level",
}
#: Numbers that vLLM's parser reads with a suffix (`human_readable_int`): the small ones
#: powers of 1,000, the capital ones powers of 1,024.
_LARGE = ("max_model_len", "max_num_batched_tokens")
_LARGE_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([kmgt])|(\d{1,15})([KMGT])")
_THOUSANDS = "kmgt"
#: The module that `vllm serve` stands for, as older commands start it.
_MODULE = "vllm.entrypoints.openai.api_server"
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
#: Flags that are no flags of a stack file.
_OWN_FLAGS: Mapping[str, Rule] = {
    "model": lambda value: Sets("model.name", value),
    "port": lambda value: Sets("serving.port", value),
    "host": refused("the server listens where its host lets clients in"),
    "served_model_name": refused("the model is served under its own name, tpuflex:model.name"),
    "api_key": refused("it is a secret, and `tpuflex up` makes one", "Remove it from that file."),
    "download_dir": refused("the weights come from the stack's bucket"),
}
#: Options of `docker run` that take a word of their own.
_WITH_VALUE = re.compile(
    r"-[evpuwl]|--(env|volume|publish|name|network|net|shm-size|restart|ipc|gpus|runtime|entrypoint"
    r"|mount|device|user|workdir|hostname|memory|cpus|ulimit|label|env-file)"
)
_ENVIRONMENT = ("-e", "--env")
#: One-letter switches of `docker run` may stand together, as in `-it`.
_SWITCHES = re.compile(r"-[dit]+|--(detach|interactive|tty|rm|privileged|init)")
_CONTAINER = Refused("tpuflex starts the container itself, with what it needs and no more")
_SIZE = re.compile(r"(\d+)([mg])b?", re.IGNORECASE)
_SECRET = Refused(
    "is filled in by a command when it is started, and the host runs no commands of yours",
    "Write its value, unless it is a secret: none of yours reaches the container.",
)
#: Numbers of lines, as in a listing that was copied.
_NUMBERED = re.compile(r"^\s*\d+\s{1,3}(?=\S)|^\s*\d+\s+")
#: What a shell would run to fill in a value: one word, whatever is in it.
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_FILLED_IN = "$(…)"
_FLAG = re.compile(r"--?[A-Za-z]")
_STEP = re.compile(r"\s(?:&&|;)\s")


def translated_command(text: str) -> Translation:
    """What the command in ``text`` says.

    Raises:
        SettingsError: it is no command line, or starts no vLLM.
    """
    found = Translation()
    words = _words(_one_line(text))
    if words[:1] == ["sudo"]:
        words = words[1:]
    contained = words[:2] == ["docker", "run"]
    if contained:
        words = _docker_run(found, words[2:])
    if len(words) == 3 and words[0].rpartition("/")[2] in ("bash", "sh") and words[1] == "-c":
        words = _last_step(found, words[2])
        contained = False
    if contained:
        add_container_command(found, words, "")
    else:
        add_serve_command(found, words, "")
    return found


def is_command(text: str) -> bool:
    """Whether ``text`` looks like a command that starts vLLM."""
    pattern = rf"\bvllm\s+serve\b|\bdocker\s+run\b|-m\s+{re.escape(_MODULE)}\b"
    return re.search(pattern, text) is not None


def add_container_command(found: Translation, words: Sequence[str], prefix: str) -> None:
    """Take in a container's command, which may be flags alone: its image then starts vLLM.

    Raises:
        SettingsError: it is no such command.
    """
    alone = bool(words) and words[0].startswith("-")
    add_serve_command(found, ["serve", *words] if alone else words, prefix)


def add_serve_command(found: Translation, words: Sequence[str], prefix: str) -> None:
    """Take in ``vllm serve MODEL --flag …``; ``vllm`` may be missing, variables may stand before
    it, and the older ``python3 -m vllm.entrypoints.openai.api_server`` is the same."""
    rest = list(words)
    while rest and (match := _ASSIGNMENT.fullmatch(rest[0])):
        found.add(f"{prefix}{match[1]}", _variable(match[1], match[2]))
        rest.pop(0)
    if re.fullmatch(r"(.*/)?python3?(\.\d+)?", rest[0] if rest else "") and rest[1:3] == [
        "-m",
        _MODULE,
    ]:
        rest = ["serve", *rest[3:]]
    rest = rest[1:] if rest[:1] == ["vllm"] else rest
    if rest[:1] != ["serve"]:
        shown = " ".join(words[:2]) or "nothing"
        raise _no_command(f"starts with {shown!r}, not with `vllm serve`")
    rest = rest[1:]
    if rest and not rest[0].startswith("-"):
        found.add(f"{prefix}MODEL", Sets("model.name", rest.pop(0)))
    further: list[str] = []
    members: dict[str, dict[str, object]] = {}
    for flag, values in _flags(rest):
        name = _name(flag)
        name, _, member = name.partition(".")
        if member:
            members.setdefault(name, {})[member] = _value(name, values)
        elif name not in _OWN_FLAGS and (words_of := _without_setting(name, values)):
            further += words_of
            found.as_is.append(Finding(f"{prefix}{flag}", "is passed on in serving.extra_args"))
        else:
            found.add(f"{prefix}{flag}", _outcome(name, values))
    for name, table in members.items():
        found.add(f"{prefix}--{name.replace('_', '-')}", _flag(name, table))
    if further:
        found.add(f"{prefix}further flags", Sets("serving.extra_args", further))


def _name(flag: str) -> str:
    """The setting's name of ``flag``; members of a document follow a dot."""
    short, dot, member = flag.partition(".")
    name = _SHORT.get(short) or short.lstrip("-").replace("-", "_")
    return f"{name}{dot}{member}"


def _outcome(name: str, values: Sequence[str]) -> Sets | AsIs | Refused:
    value = _value(name, values)
    if name in _OWN_FLAGS:
        return _OWN_FLAGS[name](value)
    if name == "max_model_len" and value in ("auto", -1):
        return Refused(
            "asks vLLM to choose the length when it starts, and memory is planned before",
            "Write a number of tokens.",
        )
    return _flag(name, value)


def _without_setting(name: str, values: Sequence[str]) -> list[str]:
    """The words of a flag that can be passed on as it is; none if it is a setting, or refused."""
    if _flag(name, True).key.removeprefix("serving.flags.") in ServingFlags.model_fields:
        return []
    words = [f"--{name.replace('_', '-')}", *values]
    return [] if any(extra_args_findings(words)) else words


def _flags(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with its values: what follows `=`, or the next word, or several where vLLM's
    parser takes several."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            raise _no_command(f"has the word {word[:40]!r} where a flag is expected")
        if level := re.fullmatch(r"-O=?(\d+)", word):
            yield "-O", [level[1]]
            continue
        flag, equals, value = word.partition("=")
        known = known_flags().get(plain_name(f"--{_name(flag)}"))
        most = len(rest) if known is not None and known.values == "many" else 1
        values = [value] if equals else []
        while not equals and rest and len(values) < most and not _FLAG.match(rest[0]):
            values.append(rest.pop(0))
        yield flag, values


def _value(name: str, words: Sequence[str]) -> object:
    """The number, object or text that the words after a flag are; True if there are none."""
    if not words:
        return True
    if len(words) > 1:
        return list(words)
    match = _LARGE_NUMBER.fullmatch(words[0]) if name in _LARGE else None
    if match is None:
        return _plain_value(words[0])
    if match[2]:
        return int(Decimal(match[1]) * 1000 ** (_THOUSANDS.index(match[2]) + 1))
    return int(match[3]) * 1024 ** (_THOUSANDS.index(match[4].lower()) + 1)


def _flag(name: str, value: object) -> Sets:
    known = ServingFlags.model_fields
    if name not in known and name.startswith("no_") and name[3:] in known and value is True:
        return Sets(f"serving.flags.{name[3:]}", False)
    return Sets(f"serving.flags.{name}", value)


def _plain_value(text: str) -> object:
    """``text`` as the number, object or text that it is."""
    try:
        document = read_yaml(text)
    except (yaml.YAMLError, RefusedYamlError):
        return text
    value = document.value if not document.repeated else text
    return value if isinstance(value, int | float | dict | list) else text


def _docker_run(found: Translation, words: Sequence[str]) -> list[str]:
    """Take in the options of ``docker run`` and the image; returns the container's command."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if _WITH_VALUE.fullmatch(option) and not equals:
            if not rest:
                raise _no_command(f"ends after {option}")
            value = rest.pop(0)
        elif not (_WITH_VALUE.fullmatch(option) or _SWITCHES.fullmatch(option)):
            raise _no_command(f"has an option of docker that tpuflex does not know, {option[:40]}")
        if option in _ENVIRONMENT:
            name, equals, content = value.partition("=")
            found.add(f"{option} {name}", _variable(name, content) if equals else _SECRET)
        elif option == "--shm-size":
            found.add(option, _shared_memory(value))
        else:
            found.add(f"docker run {option}", _CONTAINER)
    if not rest:
        raise _no_command("names no image")
    found.add("image", _image(rest.pop(0)))
    return rest


def _variable(name: str, content: str) -> Sets | Refused:
    if _FILLED_IN in content or content.startswith("$"):
        return _SECRET
    return Sets(f"serving.env.{name}", content)


def _shared_memory(value: str) -> Sets | Refused:
    match = _SIZE.fullmatch(value)
    if match is None:
        return Refused(f"{value[:40]!r} is no size", "Write one such as 10g.")
    return Sets("serving.shm_size", f"{match[1]}{match[2].lower()}")


def _image(reference: str) -> Sets | AsIs | Refused:
    if "@sha256:" in reference:
        return Sets("serving.image", reference)
    return Refused(
        f"{reference} is not pinned by its digest, so it can change under a running stack",
        "vllm/vllm-tpu is taken, by digest; another: --set serving.image=REPOSITORY@sha256:…",
    )


def _last_step(found: Translation, script: str) -> list[str]:
    """The last command of a script; what runs before it is refused."""
    *before, last = _STEP.split(script)
    for step in before:
        found.add(
            " ".join(step.split())[:80],
            Refused(
                "the container starts the server and nothing else, and installs nothing: its hosts"
                " reach Google only, and its image is pinned"
            ),
        )
    return _words(last)


def _one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and all(_NUMBERED.match(line) for line in lines):
        lines = [_NUMBERED.sub("", line) for line in lines]
    return re.sub(r"\\\s*\n\s*", " ", "\n".join(line.rstrip() for line in lines)).strip()


def _words(text: str) -> list[str]:
    try:
        return shlex.split(_SUBSTITUTION.sub(_FILLED_IN, text))
    except ValueError as error:
        raise _no_command(f"cannot be split into words ({error})") from error


def _no_command(problem: str) -> SettingsError:
    remedy = "Write one command: vllm serve MODEL --flag value …"
    return SettingsError("the command line", (Finding("command", problem, remedy),))
