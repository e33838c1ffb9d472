"""Read a configuration of another tool, find out whose it is, and translate it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

import yaml

from tpuflex.catalog.flags import flag_rules
from tpuflex.errors import Finding, NotFoundError, SettingsError
from tpuflex.scaffold import helm_values, inference_template
from tpuflex.scaffold.google_stack import ANY_IMAGE, ANY_PROJECT
from tpuflex.scaffold.sections import put
from tpuflex.scaffold.serve_command import is_command, translated_command
from tpuflex.scaffold.translation import Translation, translated
from tpuflex.settings.load import parse
from tpuflex.settings.stack_yaml import LONGEST, RefusedYamlError, read_yaml

_FORMATS = (
    "It may be YAML with `inference:` at the top, Helm-style values with `args:` or `image:`, or a "
    "`vllm serve` command line."
)
#: A stack in which nothing stands in the way of a single flag or variable.
_NEUTRAL: Mapping[str, object] = {
    "cloud": "google",
    "project": ANY_PROJECT,
    "slice": {"zones": ["us-east5-a"], "accelerator_type": "v6e-8", "max_run_duration": "4h"},
    "model": {"name": "any/model"},
    "serving": {"image": ANY_IMAGE},
}
_JUDGED = ("serving.flags.", "serving.env.")


def translated_file(path: Path, *, model: str | None = None) -> Translation:
    """What the file at ``path`` says, in settings of ours.

    Args:
        path: the file.
        model: what will be served instead of the file's model.

    Raises:
        NotFoundError: there is no such file.
        SettingsError: it cannot be read, or is of none of the formats.
    """
    source = path.name
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LONGEST + 1)
    except FileNotFoundError as error:
        raise NotFoundError(f"There is no file {path}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(source, f"cannot be read ({type(error).__name__})") from error
    if len(text) > LONGEST:
        raise _unreadable(source, f"is longer than {LONGEST} characters")
    found = _translated(source, text)
    if not (found.origins or found.as_is or found.refused):
        raise _unreadable(source, "says nothing")
    _refuse_members(found, model or str(found.settings.get("model.name", "")))
    _refuse_impossible(found)
    return found


def _translated(source: str, text: str) -> Translation:
    try:
        document = read_yaml(text)
    except (yaml.YAMLError, RefusedYamlError) as error:
        if is_command(text):
            return translated_command(text)
        raise _unreadable(source, "is neither YAML nor a command") from error
    if document.repeated:
        raise SettingsError(source, document.repeated)
    value = document.value
    if isinstance(value, str) and is_command(text):
        return translated_command(text)
    if isinstance(value, dict) and isinstance(value.get("inference"), dict):
        return translated(value, inference_template.RULES)
    if isinstance(value, dict) and value.keys() & {"args", "command", "image", "replicaCount"}:
        return helm_values.translated_values(value)
    raise _unreadable(source, "is of no format that tpuflex reads")


def _refuse_members(found: Translation, model: str) -> None:
    """Refuse members of flags that ``model`` cannot have, and keep the others."""
    for key, value in list(found.settings.items()):
        flag = key.removeprefix("serving.flags.")
        if flag == key or not isinstance(value, Mapping):
            continue
        kept = dict(value)
        for member, content in value.items():
            for rule in flag_rules().values:
                if rule.refused and rule.holds({flag: {member: content}}, "google", model):
                    kept.pop(member, None)
                    name = f"{found.origins[key]} {member}"
                    found.refused.append(Finding(name, rule.refused, rule.remedy))
        if kept:
            found.settings[key] = kept
        elif value:
            del found.settings[key], found.origins[key]


def _refuse_impossible(found: Translation) -> None:
    """Turn flags and variables that no stack can have into refusals, with the reason.

    One of them is impossible if it is wrong alone and among the others: a flag may need another,
    and what contradicts another, or is wrong on this slice, is for the user to decide.
    """
    judged = {key: found.settings[key] for key in found.settings if key.startswith(_JUDGED)}
    among_others = _problems(judged)
    for key, value in judged.items():
        alone = _problems({key: value})
        why = next((each for each in alone if each in among_others), None)
        if why is not None:
            del found.settings[key]
            found.refused.append(Finding(found.origins.pop(key), why.problem, why.remedy))


def _problems(settings: Mapping[str, object]) -> tuple[Finding, ...]:
    sections = copy.deepcopy(dict(_NEUTRAL))
    for key, value in settings.items():
        put(sections, key, value)
    try:
        parse(sections, "some settings")
    except SettingsError as error:
        return error.findings
    return ()


def _unreadable(source: str, problem: str) -> SettingsError:
    return SettingsError(source, (Finding(source, problem, _FORMATS),))
