"""Rules about the memory of the chips: what cannot fit, and what fits with reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tpuflex.errors import Finding
from tpuflex.planning.diagnostics import Diagnostic
from tpuflex.planning.quantization import ANOTHER_CHECKPOINT, contradiction, refused_method
from tpuflex.planning.request import NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.settings.model import NAMESPACE, Draft, StackSettings

_WEIGHTS = f"{NAMESPACE}model.weights"
#: What of two rows is compared: what makes a model another one, or an answer another length.
_COMPARED = (
    "family",
    "layers",
    "hidden_size",
    "intermediate_size",
    "attention_heads",
    "kv_heads",
    "head_dim",
    "vocab_size",
    "tied_embeddings",
    "experts",
    "quantization",
    "max_context",
)


def memory_findings(draft: Draft) -> Iterator[Finding]:
    """What would not start, or never serve a sequence of full length, each with the nearest that
    fits. Nothing is said where no plan can be made, nor while a section is missing or wrong."""
    fields = StackSettings.model_fields
    sections = {name: getattr(draft, name) for name in fields}
    if any(sections[name] is None and field.default is not None for name, field in fields.items()):
        return
    settings = StackSettings.model_construct(**sections).by_files(draft.checkpoint)
    refused = tuple(quantization_findings(settings))
    yield from refused
    if refused:
        return
    planned = plan_stack(settings)
    if not isinstance(planned, NotPlannable):
        yield from _findings(planned.problems)


def quantization_findings(settings: StackSettings) -> Iterator[Finding]:
    """How what the files say of their quantisation, alone or beside the flag, keeps a server on a
    TPU from starting."""
    found, flag = settings.checkpoint, settings.serving.flags.quantization
    if settings.cloud != "google" or found is None:
        return
    method = found.quantization
    if method is not None and (refused := refused_method(method)) is not None:
        yield Finding(_WEIGHTS, f"those of {found.where} {refused}", ANOTHER_CHECKPOINT)
    elif flag is not None and (method or found.row) and (why := contradiction(flag, method)):
        yield Finding(
            f"{NAMESPACE}serving.flags.quantization",
            f"{flag}, {why} in {found.where}: vLLM refuses to start",
            "Remove it.",
        )


def memory_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What fits, but is unproven, will preempt, or leaves little for programs; that nobody knows,
    where no plan can be made; and that the files are another model than the name says."""
    planned = plan_stack(settings)
    if isinstance(planned, NotPlannable):
        yield Finding(
            f"{NAMESPACE}model.name",
            f"how much memory it takes is not known, nor whether it fits: {planned.reason}",
            "Plan it before you pay: `tpuflex memory --model-dir DIR` reads its files.",
        )
    else:
        yield from _findings(planned.concerns)
    yield from _other_model(settings)


def _other_model(settings: StackSettings) -> Iterator[Finding]:
    """How the files differ from what is known of the model's name."""
    name, found = settings.model.name, settings.checkpoint
    named = settings.catalog.model(name)
    if found is None or found.row is None or named is None:
        return
    row = found.row
    differing = [
        f"{field.replace('_', ' ')} {getattr(row, field) or 'none'}, not"
        f" {getattr(named, field) or 'none'}"
        for field in _COMPARED
        if getattr(row, field) != getattr(named, field)
    ]
    if differing:
        yield Finding(
            f"{NAMESPACE}model.name",
            f"the files of {found.where} are not the {name} that is known, and are planned as they"
            f" are: {'; '.join(differing)}",
            "Write another name, unless these are the weights that you mean.",
        )


def _findings(diagnostics: Iterable[Diagnostic]) -> Iterator[Finding]:
    for each in diagnostics:
        yield Finding(f"{NAMESPACE}{each.setting}", each.what, each.nearest)
