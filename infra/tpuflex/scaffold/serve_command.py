"""A server's command line, as `vllm serve`, its older module or `docker run` have it.

A command is words; :mod:`tpuflex.scaffold.shell_script` makes words of a script, and the tasks of
other tools hold some of them as lists.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import yaml

from tpuflex.catalog.flags import TOKEN_FLAGS, known_flags, plain_name, rule_of, suffixed_number
from tpuflex.errors import Finding, SettingsError
from tpuflex.scaffold.container import (
    NO_COMMANDS,
    image,
    shared_memory,
    variable,
)
from tpuflex.scaffold.shell_script import Command, Script, gaps, read_script, readable
from tpuflex.scaffold.translation import AsIs, Refused, Rule, Sets, Translation, refused
from tpuflex.settings.extra_args import extra_args_findings
from tpuflex.settings.secret_shapes import masked
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
#: `image=4,audio=1`, as vLLM took limits before they were a document.
_LIMITS = re.compile(r"\w+[=:]\d{1,9}(,\w+[=:]\d{1,9})*")
#: Flags without a setting whose default changes nothing.
_DEFAULTS = {"pipeline_parallel_size": 1, "data_parallel_size": 1}
_FLAGS = "serving.flags."
#: vLLM's other names of data types.
_ALIASES = {"half": "float16", "float": "float32"}
#: The module that `vllm serve` stands for, as older commands start it.
_MODULE = "vllm.entrypoints.openai.api_server"
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


def _model(value: object) -> Sets | AsIs:
    if isinstance(value, str) and re.match(r"[/.~]|\w+://", value):
        return AsIs(
            f"{readable(value)[:60]} is where that server had the weights: --model NAME names the"
            " model, --weights DIR its directory on this machine"
        )
    return Sets("model.name", value)


#: Flags that are no flags of a stack file.
_OWN_FLAGS: Mapping[str, Rule] = {
    "model": _model,
    "port": lambda value: Sets("serving.port", value),
    "served_model_name": refused("the model is served under its own name, tpuflex:model.name"),
    "api_key": refused("it is a secret, and `tpuflex up` makes one", "Remove it from that file."),
}
#: Of these it makes no difference what the value is.
_WHATEVER = _OWN_FLAGS.keys() - {"model", "port"}
#: Options of `docker run` that take a word of their own.
_WITH_VALUE = re.compile(
    r"-[acehlmpuvw]|--(add-host|annotation|attach|cap-add|cap-drop|cgroup[a-z-]*|cidfile"
    r"|cpu-[a-z-]+|cpus|cpuset-[a-z]+|device[a-z-]*|dns[a-z-]*|domainname|entrypoint|env|env-file"
    r"|expose|gpus|group-add|health-[a-z-]+|hostname|ip6?|ipc|isolation|label|label-file|link"
    r"|log-driver|log-opt|mac-address|memory|memory-[a-z-]+|mount|name|net|network|net[a-z]*-alias"
    r"|oom-score-adj|pid|pids-limit|platform|publish|pull|restart|runtime|security-opt|shm-size"
    r"|stop-[a-z]+|storage-opt|sysctl|tmpfs|ulimit|user|userns|uts|volume|volume-driver"
    r"|volumes-from|workdir)"
)
_ENVIRONMENT = ("-e", "--env")
#: One-letter switches of `docker run` may stand together, as in `-it`.
_SWITCHES = re.compile(
    r"-[ditPq]+|--(detach|init|interactive|no-healthcheck|oom-kill-disable|privileged|publish-all"
    r"|quiet|read-only|rm|sig-proxy|tty)"
)
_OURS = AsIs("tpuflex starts the container itself, with what it needs and no more")
NO_FILE = Refused("names a file, which is not read", "Write its variables in the file of --from.")
_FLAG = re.compile(r"--?[A-Za-z]")
#: What follows `vllm serve`: flags, perhaps behind the model.
FLAGS_ALONE = re.compile(r"(?!\S*sh\s)(?:\S*[/\ue000]\S*\s+|\S*[/\ue000]\S*$)?(?:-|$)")
_SHELLS = ("bash", "sh", "zsh", "dash", "ash")
#: Text in which a server is started, as `bash -c` and `tmux` take it.
_INNER = re.compile(rf"\bvllm\s+(?:\\\s+)?serve\b|-m\s+{re.escape(_MODULE)}\b")
#: Programs that only speak of a command.
_SPEAKING = re.compile(r"echo|printf|pkill|pgrep|grep|kill|trap|alias|log")
#: Programs that change nothing for a server that is started after them.
_HARMLESS = re.compile(
    rf"{_SPEAKING.pattern}|set|cd|source|\.|mkdir|sleep|wait|true|:|ulimit|exit|unset|test|\["
    r"|shift|return|date|pwd|ls|pushd|popd|read|cat|rm|touch|which|command|curl|exec|tail|free"
    r"|nproc|nvidia-smi|sysctl|module|conda|mamba|micromamba|deactivate|uv|hf|huggingface-cli"
    r"|docker|podman|kubectl"
)
#: Programs through which a server is started, and which change nothing for it.
_STARTERS = re.compile(r"sudo|nohup|exec|time|env|nice|setsid|command|uv|bash|sh|python3?(\.\d+)?")
#: Files that set up a shell, and no server.
_PROFILE = re.compile(r"activate|bashrc|profile|conda\.sh|/etc/")
_INSTALLS = re.compile(r"uv (pip install|add|sync)|(conda|mamba|micromamba) (install|update)")
_PROGRAM = re.compile(r"[A-Za-z0-9_.+-]{1,30}")
_VLLM_ALONE = re.compile(
    r"(sudo )?((\S*python3?(\.\d+)? -m )?pip3?|uv pip) install( -\S+)*"
    r"( (vllm|vllm-tpu)(\[[\w,]+\])?([=<>~!]=?[\w.*,<>=]+)?)+( -\S+)*"
)


def add_script(
    found: Translation,
    text: str,
    given: Mapping[str, str],
    prefix: str = "",
    line: int | None = None,
) -> Translation:
    """Take in the script ``text``, which starts one server.

    Args:
        found: what is known of the configuration so far.
        text: the script.
        given: the environment that it is started in.
        prefix: what stands before the names of its findings.
        line: the file's line of all of it; None if the text is the file.

    Raises:
        SettingsError: it is no script, or starts no server, or several.
    """
    script = read_script(text, given)
    servers = [each for each in script.commands if _starts_server(each.words)]
    if len(servers) != 1:
        raise _not_one_server(script, servers)
    (server,) = servers
    place = script.commands.index(server)
    contained = _docker_run_at(server.words) is not None
    for name, content in script.exported.items():
        outcome = variable(name, content, exported=True)
        # A variable that stands in the command has said what it says, and no other reaches a
        # container by itself.
        if not contained and (isinstance(outcome, Sets) or name not in script.used):
            found.add(f"{prefix}export {name}", outcome)
    _add_others(found, script.commands[:place], prefix)
    for target in server.dropped:
        found.add(f"{prefix}{target}", AsIs("`tpuflex logs --server` shows what the server writes"))
    server = replace(server, line=server.line if line is None else line)
    _add_server(found, server, {**given, **script.exported}, prefix)
    behind = script.commands[place + 1 :]
    if lost := next((each for each in behind if each.words[0].startswith("--")), None):
        problem = f"has {readable(lost.words[0])[:40]} in line {lost.line}, on its own"
        raise _no_command(problem, "End the line before it with \\.")
    after = dict.fromkeys(readable(each.words[0]) for each in behind)
    if names := [name for name in after if not _HARMLESS.fullmatch(name)]:
        reason = "runs beside the server, and the container starts the server alone"
        found.add(f"{prefix}{', '.join(names)}", AsIs(reason))
    return found


def translated_command(text: str, given: Mapping[str, str] | None = None) -> Translation:
    """What the command, or the script, in ``text`` says; see :func:`add_script`."""
    return add_script(Translation(), text, given or {})


def is_command(text: str) -> bool:
    """Whether ``text`` looks like a command that starts vLLM."""
    return _INNER.search(text) is not None or re.search(r"\bdocker\s+run\b", text) is not None


def is_flags(value: Mapping[str, object]) -> bool:
    """Whether ``value`` is what `vllm serve --config` reads: flags and their values."""
    return all(plain_name(f"--{key}") in {*known_flags(), "model"} for key in value)


def translated_flags(document: Mapping[str, object], _given: Mapping[str, str]) -> Translation:
    """What such flags say."""
    found = Translation()
    _add_flags(found, flag_words(document), "")
    return found


def flag_words(flags: Mapping[str, object]) -> list[str]:
    """``flags`` as words of a command line."""
    words: list[str] = []
    for key, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{key}" if value else f"--no-{key}")
        elif isinstance(value, list):
            words += [f"--{key}", *map(str, value)]
        else:
            written = json.dumps(value) if isinstance(value, dict) else str(value)
            words.append(f"--{key}={written}")
    return words


def add_container_command(
    found: Translation,
    words: Sequence[str],
    prefix: str,
    given: Mapping[str, str] | None = None,
    line: int = 0,
) -> None:
    """Take in a container's command, which may be what follows `vllm serve` alone: its image then
    starts vLLM. ``given`` is the container's environment.

    Raises:
        SettingsError: it is no such command.
    """
    words = [part for word in words for part in _flag_and_value(word)]
    if _is_shell(words):
        add_script(found, words[-1], given or {}, prefix, line)
    elif _starts_server(words):
        _add_server(found, Command(tuple(words), {}, (), line), given or {}, prefix)
    elif words[:1] == ["serve"] or FLAGS_ALONE.match(" ".join(words)):
        _add_flags(found, words[1:] if words[:1] == ["serve"] else words, prefix, line)
    else:
        begin = masked(_shown(words)) if words else "nothing"
        raise _no_command(f"starts with {begin}, not with `vllm serve`")


def _not_one_server(script: Script, servers: Sequence[Command]) -> SettingsError:
    if servers:
        lines = ", ".join(str(each.line) for each in servers)
        return _no_command(
            f"starts {len(servers)} servers (lines {lines}), and a stack is one",
            "Write the command of one of them into a file of its own.",
        )
    others = [*dict.fromkeys(masked(_shown(each.words)) for each in script.commands)]
    some = f": it has {', '.join(others[:8])}" if others else ""
    return _no_command(
        f"has no `vllm serve`, no `python -m {_MODULE}` and no `docker run` of vLLM{some}"
    )


def _add_others(found: Translation, commands: Sequence[Command], prefix: str) -> None:
    """Refuse what runs before the server, unless the server is the same without it."""
    for command in commands:
        words = " ".join(readable(" ".join(command.words)).split())
        program = command.words[0].rpartition("/")[2]
        if program == "sudo" and len(command.words) > 1:
            program = command.words[1]
        if _VLLM_ALONE.fullmatch(words):
            found.add(f"{prefix}{_shown(command.words)}", AsIs("the image has vLLM"))
        elif program in ("source", ".") and not _PROFILE.search(words):
            found.add(f"{prefix}{_shown(command.words)}", NO_FILE)
        elif not _HARMLESS.fullmatch(program) or _INSTALLS.match(words):
            found.add(f"{prefix}{_shown(command.words)}", NO_COMMANDS)


def _shown(words: Sequence[str]) -> str:
    """The program of ``words``: each of its arguments may be a secret."""
    program = words[0].rpartition("/")[2]
    return program if _PROGRAM.fullmatch(program) else "a command"


def _is_shell(words: Sequence[str]) -> bool:
    """Whether ``words`` are a shell with a script as its last word."""
    return (
        len(words) > 2
        and words[0].rpartition("/")[2] in _SHELLS
        and all(word.startswith("-") for word in words[1:-1])
        and "c" in words[-2]
    )


def _starts_server(words: Sequence[str]) -> bool:
    if not words or _SPEAKING.fullmatch(words[0].rpartition("/")[2]):
        return False
    return (
        _server_at(words) is not None
        or any(_INNER.search(word) for word in words)
        or ((run := _docker_run_at(words)) is not None and _runs_vllm(words[run:]))
    )


def _server_at(words: Sequence[str]) -> int | None:
    """Where the server's own words begin: after `vllm serve`, or the older module."""
    for place in range(1, len(words)):
        before, word = words[place - 1].rpartition("/")[2], words[place]
        if (before == "vllm" and word == "serve") or (before == "-m" and word == _MODULE):
            return place + 1
    return None


def _docker_run_at(words: Sequence[str]) -> int | None:
    for place in range(1, len(words)):
        if words[place] == "run" and words[place - 1] in ("docker", "podman", "nerdctl"):
            return place + 1
    return None


def _runs_vllm(words: Sequence[str]) -> bool:
    """Whether the image of ``words``, the options of `docker run` and what follows, is vLLM's, or
    flags of a server follow it."""
    return any("vllm" in word or word in ("serve", "--model") for word in words)


def _add_server(
    found: Translation, command: Command, given: Mapping[str, str], prefix: str
) -> None:
    """Take in one command that starts a server, whatever it is started through."""
    words = list(command.words)
    for name, content in command.variables.items():
        found.add(f"{prefix}{name}", variable(name, content))
    run = _docker_run_at(words)
    if run is not None:
        words = _docker_run(found, words[run:], given, prefix)
        add_container_command(found, words, prefix, given, command.line)
        return
    server = _server_at(words)
    inner = next((word for word in words if _INNER.search(word)), "")
    before = words[: server - 2] if server else words[: words.index(inner)]
    others = [word for word in before if not _ASSIGNMENT.fullmatch(word)]
    if others and not _STARTERS.fullmatch(others[0].rpartition("/")[2]):
        found.add(f"{prefix}{_shown(others)}", _OURS)
    if server is None:
        # An option and its value in one word: --command='vllm serve …'.
        add_script(found, re.sub(r"\A--?[\w-]+=", "", inner), given, prefix, command.line)
        return
    for word in before:
        if match := _ASSIGNMENT.fullmatch(word):
            found.add(f"{prefix}{match[1]}", variable(match[1], match[2]))
    _add_flags(found, words[server:], prefix, command.line)


def _add_flags(found: Translation, words: Sequence[str], prefix: str, line: int = 0) -> None:
    """Take in ``MODEL --flag …``."""
    rest = list(words)
    model = rest[0] if rest and not rest[0].startswith("-") else None
    if model is not None:
        _add(found, f"{prefix}MODEL", "model", [rest.pop(0)], line)
    further: list[str] = []
    members: dict[str, dict[str, object]] = {}
    for flag, values in _flags(rest):
        name = _name(flag)
        name, _, member = name.partition(".")
        if not flag:
            found.unset_in(f"{prefix}further flags", "", values, line)
        elif member:
            members.setdefault(name, {})[member] = _value(name, values)
        elif name in ("served_model_name", "tokenizer") and values == [model]:
            found.add(f"{prefix}{flag}", AsIs("it is the model's own"))
        else:
            further += _add(found, f"{prefix}{flag}", name, values, line)
    for name, table in members.items():
        found.add(f"{prefix}--{name.replace('_', '-')}", _flag(name, table))
    if further:
        found.add(f"{prefix}further flags", Sets("serving.extra_args", further))


def _add(
    found: Translation, key: str, name: str, values: Sequence[str], line: int
) -> Sequence[str]:
    """Take in one flag, unless its value is only known where it is started; returns the words of
    one that has no setting and is passed on."""
    rule = rule_of(name.removeprefix("no_"))
    unknown = [each for value in values for each in gaps(value)]
    if rule is not None and rule.unneeded is not None:
        found.add(key, AsIs(rule.unneeded))
    elif name.startswith("no_enable_") and rule is not None and rule.refused is not None:
        found.add(key, AsIs("it is off"))
    elif name == "tensor_parallel_size" and any(map(_counts_chips, unknown)):
        found.add(key, AsIs("all chips of the slice share each layer by default"))
    elif not unknown or name in _WHATEVER:
        if name in _OWN_FLAGS or _is_setting(name):
            found.add(key, _outcome(name, values))
            return ()
        words = [f"--{name.replace('_', '-')}", *values]
        problem = next(extra_args_findings(words), None)
        if problem is None:
            return words
        found.add(key, Refused(problem.problem, problem.remedy))
    elif any(not re.fullmatch(r"\$\w+", each) for each in unknown):
        filled = readable(" ".join(values))
        found.add(key, Refused(f"{filled} is filled in where it is started", "Write its value."))
    else:
        setting = _outcome(name, values)
        found.unset_in(key, setting.key if isinstance(setting, Sets) else "", values, line)
    return ()


def _is_setting(name: str) -> bool:
    """Whether the flag has a setting of its own, or becomes one."""
    return (
        name in _DEFAULTS or _flag(name, True).key.removeprefix(_FLAGS) in ServingFlags.model_fields
    )


#: What other tools set to the number of devices, or what counts them.
_DEVICES = re.compile(
    r"\$(SKYPILOT_NUM_GPUS_PER_NODE|DSTACK_GPUS_(NUM|PER_NODE)|SLURM_GPUS_(ON|PER)_NODE"
    r"|\(nvidia-smi .*)"
)


def _counts_chips(text: str) -> bool:
    """Whether the gap ``text`` is the number of devices of the machine that it runs on."""
    return _DEVICES.fullmatch(text) is not None


def _name(flag: str) -> str:
    """The setting's name of ``flag``; members of a document follow a dot."""
    short, dot, member = flag.partition(".")
    name = _SHORT.get(short) or short.lstrip("-").replace("-", "_")
    return f"{name}{dot}{member}"


def _outcome(name: str, values: Sequence[str]) -> Sets | AsIs | Refused:
    value = _value(name, values)
    if name in _OWN_FLAGS:
        return _OWN_FLAGS[name](value)
    if name in _DEFAULTS and value == _DEFAULTS[name]:
        return AsIs("is vLLM's default")
    if name == "max_model_len" and value in ("auto", -1):
        return Refused(
            "asks vLLM to choose the length when it starts, and memory is planned before",
            "Write a number of tokens.",
        )
    if name == "dtype" and isinstance(value, str):
        value = _ALIASES.get(value, value)
    if name == "limit_mm_per_prompt" and isinstance(value, str) and _LIMITS.fullmatch(value):
        pairs = (re.split("[=:]", each) for each in value.split(","))
        value = {kind: int(number) for kind, number in pairs}
    return _flag(name, value)


def _flags(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with its values: what follows `=`, or as many words as vLLM's parser takes. A word
    that stands for further flags, which nothing tells, comes as the value of no flag."""
    rest, before = list(words), ""
    while rest:
        word = rest.pop(0)
        if gaps(word) == (readable(word),):
            yield "", [word]
            continue
        if not word.startswith("-"):
            behind = f" behind {masked(before)[:40]}" if before else ""
            raise _no_command(f"has a word{behind} where a flag is expected")
        if level := re.fullmatch(r"-O=?(\d+)", word):
            yield "-O", [level[1]]
            continue
        flag, equals, value = word.partition("=")
        before = flag
        known = known_flags().get(plain_name(f"--{_name(flag)}"))
        count = known.values if known is not None else "one"
        most = {"none": 0, "many": len(rest)}.get(count, 1)
        values = [value] if equals else []
        while not equals and rest and len(values) < most and not _FLAG.match(rest[0]):
            values.append(rest.pop(0))
        yield flag, values


def _flag_and_value(word: str) -> list[str]:
    """The parts of ``word``, a member of a list, that holds a flag and its value."""
    match = re.fullmatch(r"(--?[\w.-]+)\s+(\S.*)", word.strip(), re.DOTALL)
    if match is None:
        return [word]
    if match[2][0] in "{[":
        return [match[1], match[2]]
    try:
        return shlex.split(word)
    except ValueError:
        return [match[1], match[2]]


def _value(name: str, words: Sequence[str]) -> object:
    """The number, object or text that the words after a flag are; True if there are none."""
    if not words:
        return True
    if len(words) > 1:
        return list(words)
    tokens = suffixed_number(words[0]) if name in TOKEN_FLAGS else None
    return _plain_value(words[0]) if tokens is None else tokens


def _flag(name: str, value: object) -> Sets:
    known = ServingFlags.model_fields
    if name not in known and name.startswith("no_") and name[3:] in known and value is True:
        return Sets(f"{_FLAGS}{name[3:]}", False)
    return Sets(f"{_FLAGS}{name}", value)


def _plain_value(text: str) -> object:
    """``text`` as the number, object or text that it is."""
    try:
        document = read_yaml(text)
    except (yaml.YAMLError, RefusedYamlError):
        return text
    value = document.value if not document.repeated else text
    return value if isinstance(value, int | float | dict | list) else text


def _docker_run(
    found: Translation, words: Sequence[str], given: Mapping[str, str], prefix: str
) -> list[str]:
    """Take in the options of ``docker run`` and the image; returns the container's command."""
    rest = list(words)
    entrypoint: list[str] = []
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if _WITH_VALUE.fullmatch(option) and not equals:
            if not rest:
                raise _no_command(f"ends after {option}")
            value = rest.pop(0)
        elif _WITH_VALUE.fullmatch(word[:2]):
            option, value = word[:2], word[2:].removeprefix("=")  # -p8000:8000
        elif not (_WITH_VALUE.fullmatch(option) or _SWITCHES.fullmatch(option)):
            raise _no_command(f"has an option of docker that tpuflex does not know, {option[:40]}")
        if option in _ENVIRONMENT:
            name, equals, content = value.partition("=")
            # Without a value, docker takes the one of the shell.
            known = content if equals else given.get(name)
            found.add(f"{prefix}{option} {name}", variable(name, known))
        elif option == "--env-file":
            found.add(f"{prefix}{option}", NO_FILE)
        elif option == "--shm-size":
            found.add(f"{prefix}{option}", shared_memory(value))
        elif option == "--entrypoint":
            entrypoint = value.split()
        else:
            found.add(f"{prefix}docker run {option}", _OURS)
    if not rest:
        raise _no_command("names no image")
    found.add(f"{prefix}image", image(rest.pop(0)))
    return [*entrypoint, *rest]


def _no_command(problem: str, remedy: str = "") -> SettingsError:
    remedy = remedy or "Write one command: vllm serve MODEL --flag value …"
    return SettingsError("The command line", (Finding("command", masked(problem), remedy),))
