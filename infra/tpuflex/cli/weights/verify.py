"""The steps of `tpuflex weights verify`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.weights.run import local_weights
from tpuflex.errors import NotFoundError, TpuflexError, WeightsError
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.weights.library import in_library
from tpuflex.weights.push_record import PushedWeights
from tpuflex.weights.stack_push import other_set_advice
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.stored_set import files_text
from tpuflex.weights.trust import PIN_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.boot.manifest import Manifest
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output
    from tpuflex.weights.stored_set import WeightsCheck


@dataclass(frozen=True, slots=True)
class _Looked:
    """The stack's set in the bucket of one region.

    Attributes:
        weights: them.
        check: what was found; None if the set is not there, or cannot be looked at.
        compared: what says which weights they should be, and whether they are.
        error: what is wrong.
    """

    weights: StackWeights
    check: WeightsCheck | None
    compared: dict[str, bool]
    error: TpuflexError | None

    def to_json(self) -> dict[str, object]:
        """It in the document of ``--json``; what cannot be looked at has an error alone."""
        check = self.check
        return {
            "manifest_sha256": None if check is None else check.sha256,
            "problems": [] if check is None else [asdict(each) for each in check.problems],
            "beside": [] if check is None else list(check.beside),
            "equals": self.compared,
            "error": None if self.error is None else self.error.to_json(),
        }


def run_verify(cloud: Connection, directory: Path | None, output: Output) -> None:
    """Compare the weights in the bucket with their manifest, and that with whatever else says
    which weights they should be; print the result. Where the stack's zones are in several regions,
    those in the bucket of each: what is wrong in one keeps none from being looked at, and the error
    is the one with the highest exit code.

    Raises:
        WeightsError: they differ.
        NotFoundError: there are none.
        TpuflexError: they cannot be looked at.
    """
    stack = cloud.stack
    prefix = weights_prefix(stack.settings.model)
    looked = [_looked(each) for each in StackWeights(cloud).everywhere()]
    if len(looked) == 1 and looked[0].error is not None:
        raise looked[0].error
    local = local_weights(stack, directory, output, lambda: cloud)
    pushed = PushedWeights(stack.own_files).get(cloud.bucket, prefix)
    home = None if looked[0].check is None else looked[0].check.sha256
    found = [_judged(each, local, pushed, home) for each in looked]
    document = {"prefix": prefix, **found[0].to_json()}
    if len(found) > 1:
        document["copies"] = [
            {"region": each.weights.elsewhere, "bucket": each.weights.bucket, **each.to_json()}
            for each in found[1:]
        ]
    output.document(document)
    for each in found:
        _show(each, output)
    errors = [each.error for each in found if each.error is not None]
    if errors:
        worst = max(errors, key=lambda error: error.exit_code)
        for error in errors:
            if error is not worst:
                output.progress(f"Error: {error.message}\n{error.hint}".rstrip())
        raise worst


def _looked(weights: StackWeights) -> _Looked:
    settings = weights.stack.settings
    prefix = weights_prefix(settings.model)
    try:
        check = weights.store.verify(prefix, ServerNeeds.of(settings))
        return _Looked(weights, check, {}, None)
    except NotFoundError as error:
        hint = f"To bring them, run: tpuflex weights push --stack {weights.stack.name}"
        where = f"{weights.elsewhere}: " if weights.elsewhere else ""
        missing = NotFoundError(f"{where}{error.message}", hint=hint)
        return _Looked(weights, None, {}, missing)
    except TpuflexError as error:
        return _Looked(weights, None, {}, error)


def _judged(
    looked: _Looked, local: Manifest | None, pushed: str | None, home: str | None
) -> _Looked:
    """What there is to say of it, once it is known what it should be.

    Args:
        looked: what was found.
        local: the manifest that a push of the source would write.
        pushed: hash of the one that was pushed from here.
        home: hash of the one in the stack's home; None if there is none.
    """
    check, weights = looked.check, looked.weights
    if check is None:
        return looked
    pinned = weights.stack.settings.model.weights.manifest_sha256
    compared = dict(_comparisons(check, pinned, local, pushed))
    if weights.elsewhere and home is not None:
        compared[f"that of the home ({home})"] = check.sha256 == home
    lines = [f"  {problem}" for problem in check.problems]
    lines += [f"  the manifest is not {what}" for what, equal in compared.items() if not equal]
    if not lines:
        return _Looked(weights, check, compared, None)
    error = WeightsError(
        f"{weights.place} is not as it should be"
        f" (the manifest there has the SHA-256 {check.sha256}):\n" + "\n".join(lines),
        hint=_advice(weights, others=not all(compared.values())),
    )
    return _Looked(weights, check, compared, error)


def _advice(weights: StackWeights, *, others: bool) -> str:
    """What to do about a set that is not right; ``others``: it is another than it should be,
    which no push replaces in the library."""
    if others and in_library(weights.stack):
        return other_set_advice(weights)
    return (
        f"To bring the right weights back, run: tpuflex weights push --stack {weights.stack.name}"
    )


def _show(looked: _Looked, output: Output) -> None:
    """Print what is as it should be."""
    check, weights = looked.check, looked.weights
    if check is None or looked.error is not None:
        return
    prefix = weights.prefix
    where = f" in {weights.elsewhere}" if weights.elsewhere else ""
    output.result(f"{prefix}{where} matches its manifest.\nmanifest_sha256: {check.sha256}")
    if check.beside:
        place = f"gs://{weights.bucket}/{prefix}" if where else prefix
        output.result(
            "Beside them there is what the manifest does not name and no host reads"
            f" ({files_text(len(check.beside))}, such as {printable(check.beside[0])}): a push of"
            " other weights has left it, or somebody else has put it there. To remove it:"
            f" tpuflex --stack {weights.stack.name} weights rm {place} --unfinished"
        )
    if looked.compared:
        output.result(f"The manifest is {' and '.join(looked.compared)}.")
    else:
        output.result(
            "Whether that is the right one, nothing here says: name the DIRECTORY that it was"
            f" pushed from, or write the hash to {PIN_KEY}."
        )


def _comparisons(
    check: WeightsCheck, pinned: str | None, local: Manifest | None, pushed: str | None
) -> Iterator[tuple[str, bool]]:
    """What says which weights they should be, and whether they are."""
    if pinned is not None:
        yield f"the pinned one ({pinned})", check.sha256 == pinned
    if local is not None:
        yield f"that of the source ({local.sha256})", check.manifest.same_as(local)
    # A pin or a source says more than what was once pushed.
    elif pushed is not None and pinned is None:
        yield f"the one pushed from here ({pushed})", check.sha256 == pushed
