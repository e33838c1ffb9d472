"""`tpuflex diagnose`: reads, judges, and shows it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.diagnosis.bundle import require_free, write_bundle
from tpuflex.diagnosis.diagnose import diagnose_log, gather, judged
from tpuflex.diagnosis.explain import Draft, explain, model_key, require_endpoint
from tpuflex.diagnosis.findings import Finding
from tpuflex.diagnosis.judge import Diagnosis, State
from tpuflex.diagnosis.scrubber import Scrubber
from tpuflex.files.trusted import open_regular
from tpuflex.stack.progress import working

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation

#: Bytes at the end of a file that are judged.
_MOST_BYTES = 16 * 2**20
_HEADLINES = {
    State.SERVES: "nothing is wrong",
    State.WAITS: "nothing is wrong so far",
    State.BOOTS: "nothing is wrong so far",
    State.ABSENT: "nothing runs",
}


#: Has a model draft a runbook.
Ask = Callable[[Diagnosis, Scrubber], Draft]


def ask_with(invocation: Invocation, url: str, model: str, key_file: Path | None) -> Ask:
    """How the ``model`` of the endpoint at ``url`` is asked; what cannot be is refused here, before
    anything is read."""
    require_endpoint(url)
    return partial(explain, url=url, model=model, key=model_key(invocation.environ, key_file))


def run(invocation: Invocation, bundle: Path | None, ask: Ask | None, *, tunnel: bool) -> int:
    """Diagnose the stack's endpoint and show it; the exit code."""
    if bundle is not None:
        require_free(bundle)
    cloud = invocation.connect(invocation.open_deployed(), start=False)
    with working(invocation.report, "Reading states, reports and logs"):
        found = gather(cloud, invocation.report, tunnel=tunnel)
        diagnosis = judged(cloud, found)
    _show(invocation, diagnosis)
    document = diagnosis.to_json()
    if bundle is not None:
        written = write_bundle(cloud, found, diagnosis, bundle)
        document["bundle"] = written.to_json()
        invocation.output.result()
        invocation.output.result(
            f"Packed in {written.path}: {', '.join(written.files)}. Read it before you send it:"
            " names of projects, buckets and accounts are in it."
        )
    return _end(invocation, diagnosis, document, found.scrub, ask)


def run_file(invocation: Invocation, log: Path, ask: Ask | None) -> int:
    """Diagnose the lines of a file and show it; the exit code."""
    with open_regular(log) as file:
        file.seek(max(0, file.seek(0, 2) - _MOST_BYTES))
        text = file.read().decode("utf-8", "replace")
    diagnosis = diagnose_log(text, log.name)
    _show(invocation, diagnosis)
    return _end(invocation, diagnosis, diagnosis.to_json(), Scrubber(), ask)


def _end(
    invocation: Invocation,
    diagnosis: Diagnosis,
    document: dict[str, object],
    scrub: Scrubber,
    ask: Ask | None,
) -> int:
    """Show the draft that is asked for, and print the document; the exit code."""
    if ask is not None:
        with working(invocation.report, "Asking the model"):
            draft = ask(diagnosis, scrub)
        document["draft"] = draft.to_json()
        output = invocation.output
        output.result()
        output.heading(f"DRAFT by the model {draft.model}: check every word before you follow it")
        for line in draft.text.splitlines():
            output.result(f"  | {line}", hanging="  | ")
        output.heading("End of the draft")
    invocation.output.document(document)
    return diagnosis.exit_code


def _show(invocation: Invocation, diagnosis: Diagnosis) -> None:
    """Print ``diagnosis``."""
    output = invocation.output
    subject = f"Stack {diagnosis.stack}" if diagnosis.stack else "Log"
    first = diagnosis.findings[0] if diagnosis.findings else None
    headline = first.failure.title if first else _HEADLINES[diagnosis.state]
    output.heading(f"{subject}: {headline}")
    if first is None:
        output.facts((("state", diagnosis.sentence), ("next", _text(invocation, diagnosis.remedy))))
    else:
        facts = [
            ("class", _class(first)),
            ("state", diagnosis.sentence),
            ("cause", first.failure.cause),
            ("next", _text(invocation, first.remedy)),
        ]
        if first.is_known:
            facts.append(("more", f"tpuflex docs {first.failure.page}"))
        output.facts(facts)
        _show_lines(invocation, first)
        _show_others(invocation, first, diagnosis.findings[1:])
    if first is None or not first.is_known:
        output.result()
        output.result(f"Looked at: {', '.join(diagnosis.evidence.looked_at) or 'nothing'}.")
    for unread in diagnosis.evidence.unread:
        output.progress(f"Not read: {unread.source}: {unread.why}")
    hints = (_text(invocation, unread.hint) for unread in diagnosis.evidence.unread)
    for hint in dict.fromkeys(filter(None, hints)):
        output.progress(hint)


def _show_lines(invocation: Invocation, found: Finding) -> None:
    if not found.lines:
        return
    output = invocation.output
    output.result()
    output.result("Shown by:")
    for line in found.lines:
        output.result(f"  {line.source}: {line.text}", hanging="    ")


def _show_others(invocation: Invocation, first: Finding, others: tuple[Finding, ...]) -> None:
    if not others:
        return
    output = invocation.output
    output.result()
    output.heading("Also, or because of that")
    for each in others:
        output.result(f"  {_class(each)}: {each.failure.title}", hanging="    ")
        for line in [line for line in each.lines if line not in first.lines][:1]:
            output.result(f"    {line.source}: {line.text}", hanging="      ")
        output.result(f"    -> {_text(invocation, each.remedy)}", hanging="       ")


def _class(found: Finding) -> str:
    """Its class, and how sure that is."""
    slug = found.failure.slug
    return f"{slug} ({found.certainty.value})" if found.is_known else slug


def _text(invocation: Invocation, advice: Advice) -> str:
    return advice.for_stack(invocation.stack, invocation.environ)
