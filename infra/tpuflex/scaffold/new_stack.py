"""What a new stack begins with, and what options and answers make of it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tpuflex.catalog.catalog import Catalog
from tpuflex.catalog.zones import region_of
from tpuflex.errors import Finding, SettingsError, UsageError
from tpuflex.naming import slug
from tpuflex.scaffold.foreign_file import translated_file
from tpuflex.scaffold.google_stack import (
    COMMENTS,
    GoogleStack,
    ask_project,
    first_flags,
    google_sections,
    google_stack,
    image_of,
    longest_context,
    text_at,
    weights_directory,
)
from tpuflex.scaffold.options import Questions, StackOptions
from tpuflex.scaffold.sections import put, value_at
from tpuflex.scaffold.shipped_stacks import EMBEDDED, ShippedStack, shipped_stack
from tpuflex.settings.model import PLACEHOLDER_PROJECT
from tpuflex.settings.secret_shapes import names_secret
from tpuflex.settings.stack_text import stack_text
from tpuflex.settings.stack_yaml import RefusedYamlError, read_yaml

if TYPE_CHECKING:
    from tpuflex.scaffold.translation import Translation, Unset

_WIDTH = 96
_REGISTRY = re.compile(r"^[a-z0-9-]+(?=-docker\.pkg\.dev/)")


@dataclass(slots=True)
class NewStack:
    """A stack that is being made.

    Attributes:
        sections: as :func:`tpuflex.settings.load.parse` takes them.
        heading: lines at the head of its file.
        comments: lines above keys.
        proposed_name: its name unless another is given.
        verbatim: the stack whose text it has, if nothing but its project is changed.
        translation: what another tool's configuration said, if it was made from one.
    """

    sections: dict[str, Any]
    heading: Sequence[str] = ()
    comments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    proposed_name: str = EMBEDDED
    verbatim: ShippedStack | None = None
    translation: Translation | None = None

    @property
    def translated(self) -> Mapping[str, object]:
        """Settings that another tool's configuration set, by dotted key."""
        return self.translation.settings if self.translation is not None else {}

    def text(self, schema: str | None) -> str:
        """The text of its file, with the schema for editors at ``schema``."""
        if self.verbatim is not None:
            return self.verbatim.text_for(str(self.sections["project"]), schema)
        comments = {
            k: v for k, v in self.comments.items() if value_at(self.sections, k) is not None
        }
        return stack_text(self.sections, self.heading, comments=comments, schema=schema)


def new_stack(
    options: StackOptions, catalog: Catalog, questions: Questions, environ: Mapping[str, str]
) -> NewStack:
    """The stack that ``options`` and answers describe; ``environ`` holds variables that the file of
    ``--from`` may name.

    Raises:
        UsageError: options contradict each other, or something is missing.
        NotFoundError: no such template or file.
        SettingsError: the file of ``--from``, or an option, cannot be read.
    """
    if options.template and options.source:
        raise UsageError("--template and --from are two beginnings: give one.")
    if options.template:
        stack = _from_template(options, shipped_stack(options.template), catalog, questions)
    else:
        cloud = _cloud(options, questions)
        if options.source is not None:
            found = _read_file(options, options.source, questions, environ)
            stack = _from_file(options, options.source, found, cloud, catalog, questions)
        elif cloud == "google":
            stack = _on_google(options, catalog, questions)
        else:
            stack = _from_template(options, shipped_stack(EMBEDDED), catalog, questions)
    for change in options.changes:
        _change(stack, change)
    return stack


def _cloud(options: StackOptions, questions: Questions) -> str:
    """Where the stack runs: what speaks of Google Cloud alone need not be said twice."""
    implied = "google" if options.project or options.zones or options.source else None
    cloud = questions.ask(
        "--cloud",
        options.cloud or implied,
        "Where does it run: on this machine (embedded), or on Google Cloud (google)?",
        default=lambda: "embedded",
        choices=("embedded", "google"),
    )
    questions.require()
    return cloud


def _from_template(
    options: StackOptions, shipped: ShippedStack, catalog: Catalog, questions: Questions
) -> NewStack:
    sections = shipped.sections
    cloud = str(sections["cloud"])
    if options.cloud not in (None, cloud):
        raise UsageError(f"The stack {shipped.name} is for --cloud {cloud}.")
    project = options.project
    if cloud == "google":
        project = ask_project(options, catalog, questions)
        questions.require()
        image = str(sections["serving"]["image"]).replace(PLACEHOLDER_PROJECT, project)
        sections["serving"]["image"] = image
    if project is not None:
        sections["project"] = project
    stack = NewStack(sections, proposed_name=shipped.name)
    changed = _apply_options(stack, options)
    changed += [change.partition("=")[0] for change in options.changes]
    changed += ["project"] if cloud == "embedded" and options.project is not None else []
    stack.heading = (
        f"Made by `tpuflex init` from stack {shipped.name}, with other values of:",
        *(f"  {key}" for key in changed),
        f"What {shipped.name} says of itself, with its own values:",
        "",
        *shipped.heading,
    )
    stack.verbatim = None if changed else shipped
    return stack


def _read_file(
    options: StackOptions, source: Path, questions: Questions, environ: Mapping[str, str]
) -> Translation:
    """What the file of ``--from`` says, with answers for the variables that nothing sets.

    Raises:
        UsageError: there is such a variable, and nobody to ask.
    """
    # A secret of this shell has no place in a stack file.
    given = {name: value for name, value in environ.items() if not names_secret(name)}
    found = translated_file(source, model=options.model, given=given)
    said = {change.partition("=")[0].removeprefix("tpuflex:") for change in options.changes}
    said |= {"model.name"} if options.model else set()
    if missing := {each.variable: each for each in found.unset if each.setting not in said}:
        answers = {name: _value_of(use, source, questions) for name, use in missing.items()}
        questions.require()
        found = translated_file(source, model=options.model, given=given | answers)
    return found


def _value_of(use: Unset, source: Path, questions: Questions) -> str:
    where = f"{source.name}:{use.line}" if use.line else source.name
    option = f"{use.variable}=VALUE before the command: nothing in {where} sets it for {use.key}"
    return questions.ask(option, None, f"${use.variable}, which {where} has at {use.key}")


def _from_file(
    options: StackOptions,
    source: Path,
    found: Translation,
    cloud: str,
    catalog: Catalog,
    questions: Questions,
) -> NewStack:
    _require_model(options, source, found)
    if cloud == "embedded":
        sections = shipped_stack(EMBEDDED).sections
        sections["serving"].pop("flags", None)
        found.settings.pop("serving.image", None)
    else:
        target = google_stack(options, found.settings, catalog, questions)
        _bound_context(options, found, target, catalog)
        sections = google_sections(target, image_of(options, found.settings, target, catalog))
    for key, value in found.settings.items():
        put(sections, key, value)
    heading = [f"Made from {source.name} by `tpuflex init`. Nobody has run it."]
    for finding in found.refused:
        heading += textwrap.wrap(f"Refused: {finding}", _WIDTH, subsequent_indent="  ")
    name = _proposed_name(sections) if cloud == "google" else EMBEDDED
    stack = NewStack(sections, heading, proposed_name=name, translation=found)
    _apply_options(stack, options)
    return stack


def _bound_context(
    options: StackOptions, found: Translation, target: GoogleStack, catalog: Catalog
) -> None:
    """Take the longest context that fits, where the file names none and the model's own, which vLLM
    would take, does not fit."""
    if any(change.startswith("serving.flags.max_model_len=") for change in options.changes):
        return
    length = longest_context(target, found.settings, catalog)
    if length is not None:
        where = f"{target.model} on {target.accelerator_type}"
        problem = f"nothing names it, and the whole context of {where} does not fit"
        found.refused.append(Finding("--max-model-len", problem, f"{length} is written."))
        found.settings["serving.flags.max_model_len"] = length


def _require_model(options: StackOptions, source: Path, found: Translation) -> None:
    """Refuse a file that names no model which can be read: no other takes its place.

    Raises:
        SettingsError: nothing names the model.
    """
    changed = any(change.startswith("model.name=") for change in options.changes)
    if options.model or changed or text_at(found.settings, "model.name"):
        return
    problem = "names no model that tpuflex could read, and no other takes its place"
    missing = Finding(source.name, problem, "Name it: --model NAME.")
    places = [each for each in found.as_is if each.key.endswith(("MODEL", "--model"))]
    raise SettingsError("The file of --from", (missing, *places, *found.refused))


def _on_google(options: StackOptions, catalog: Catalog, questions: Questions) -> NewStack:
    target = google_stack(options, {}, catalog, questions)
    sections = google_sections(target, image_of(options, {}, target, catalog))
    sections["serving"]["flags"] = first_flags(target.model, catalog)
    heading = [
        f"{target.model} on {target.accelerator_type}, with flags to begin with.",
        "Nobody has run it.",
    ]
    return NewStack(sections, heading, COMMENTS, _proposed_name(sections))


def _proposed_name(sections: Mapping[str, Any]) -> str:
    model = str(sections["model"]["name"]).rpartition("/")[2]
    return slug(f"{model}-{sections['slice']['accelerator_type']}")


def _apply_options(stack: NewStack, options: StackOptions) -> list[str]:
    """Write the options into the stack; returns the keys that they changed."""
    model = options.model or text_at(stack.translated, "model.name")
    given = {
        "model.name": options.model,
        "slice.accelerator_type": options.accelerator,
        "slice.zones": list(options.zones) or None,
        "slice.max_run_duration": options.run,
        # Another model has other weights.
        "model.weights.source": options.weights or (model and weights_directory(model)),
    }
    changed = {key: value for key, value in given.items() if value is not None}
    for key, value in changed.items():
        put(stack.sections, key, value)
    if options.zones and stack.translation is None:  # the mirror is in the zones' region
        image = str(stack.sections["serving"]["image"])
        stack.sections["serving"]["image"] = _REGISTRY.sub(region_of(options.zones[0]), image)
    return list(changed)


def _change(stack: NewStack, change: str) -> None:
    """Apply one ``--set KEY=VALUE``; the value is YAML."""
    key, equals, text = change.partition("=")
    key = key.removeprefix("tpuflex:")
    if not equals or not key:
        raise UsageError(f"--set {change!r}: write KEY=VALUE.")
    try:
        put(stack.sections, key, read_yaml(text).value)
    except (yaml.YAMLError, RefusedYamlError, KeyError) as error:
        finding = Finding(f"--set {key}", "the value cannot be read", "Write it as YAML.")
        raise SettingsError("the command line", (finding,)) from error
