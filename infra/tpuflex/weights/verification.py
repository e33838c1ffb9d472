"""Whether the weights of a stack are as they should be: the files by their manifest, and the
manifest by the pin, the source, or what was pushed from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError, TpuflexError, WeightsError
from tpuflex.weights.library import in_library
from tpuflex.weights.push_record import PushedWeights
from tpuflex.weights.source import hash_weights
from tpuflex.weights.stack_weights import StackWeights, other_set_advice

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.boot.manifest import Manifest
    from tpuflex.planning.model_files import WeightsProblem
    from tpuflex.stack.progress import Report
    from tpuflex.weights.stored_set import WeightsCheck
    from tpuflex.weights.trust import Weights


@dataclass(frozen=True, slots=True)
class RegionVerified:
    """How the stack's set is in the bucket of one region.

    Attributes:
        weights: the set.
        check: what was found; None if the set is not there, or cannot be looked at.
        compared: what says which weights they should be, and whether they are.
        error: what is wrong.
    """

    weights: StackWeights
    check: WeightsCheck | None = None
    compared: Mapping[str, bool] = field(default_factory=dict)
    error: TpuflexError | None = None

    def to_json(self) -> dict[str, object]:
        """It in the document of ``--json``; what cannot be looked at has an error alone."""
        check = self.check
        return {
            "manifest_sha256": None if check is None else check.sha256,
            "problems": [] if check is None else [asdict(each) for each in check.problems],
            "beside": [] if check is None else list(check.beside),
            "equals": dict(self.compared),
            "error": None if self.error is None else self.error.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """How the stack's weights are.

    Attributes:
        regions: those in its home, then in each further region.
    """

    regions: tuple[RegionVerified, ...]

    @property
    def errors(self) -> tuple[TpuflexError, ...]:
        """What is wrong, that with the highest exit code last."""
        found = [each.error for each in self.regions if each.error is not None]
        worst = max(found, key=lambda error: error.exit_code, default=None)
        return tuple(sorted(found, key=lambda error: error is worst))

    def to_json(self) -> dict[str, object]:
        """The document of ``--json``."""
        home, *copies = self.regions
        document = {"prefix": home.weights.prefix, **home.to_json()}
        if copies:
            document["copies"] = [
                {
                    "region": each.weights.elsewhere,
                    "bucket": each.weights.bucket,
                    **each.to_json(),
                }
                for each in copies
            ]
        return document


def verify(home: StackWeights, directory: Path | None, report: Report) -> Verification:
    """Compare the weights in the bucket with their manifest, and the manifest with the pin, the
    source, or what was pushed from here. Where the stack's zones are in several regions, this is
    done in the bucket of each, whatever is wrong in another.

    Args:
        home: the stack's weights, in its home.
        directory: the checkpoint; None for what the stack file names.
        report: takes the progress of what comes from elsewhere.

    Raises:
        NotFoundError: there are none, in the only region.
        TpuflexError: they cannot be looked at, in the only region; or the source cannot be read.
    """
    looked = [_looked(each) for each in home.everywhere()]
    if len(looked) == 1 and looked[0].error is not None:
        raise looked[0].error
    found = hash_weights(home.stack, directory, report, lambda: home.cloud)
    local = None if found is None else found.manifest
    pushed = PushedWeights(home.stack.own_files).get(home.bucket, home.prefix)
    there = None if looked[0].check is None else looked[0].check.sha256
    return Verification(tuple(_judged(each, local, pushed, there) for each in looked))


def checked(home: StackWeights, weights: Weights) -> WeightsCheck:
    """How ``weights``, which were found in the bucket of the stack's ``home``, match their
    manifest, by size and checksum.

    Raises:
        WeightsError: they were changed meanwhile.
        TpuflexError: they cannot be looked at.
    """
    check = home.store.verify(home.prefix, home.stack.needs)
    if check.sha256 != weights.found:
        raise WeightsError(
            f"The manifest in {weights.place} was changed a moment ago.",
            hint="Run it again when whoever pushes there is done.",
        )
    return check


def require_source(weights: Weights, problems: Sequence[WeightsProblem]) -> None:
    """Check that ``weights``, which have ``problems``, can be pushed again from a source that the
    stack names.

    Raises:
        WeightsError: it names none.
    """
    if not weights.source:
        raise WeightsError(
            f"{weights.place} cannot be served ({problems[0]}), and the stack names no source.",
            hint=f"Run: tpuflex weights push DIRECTORY --stack {weights.stack}",
        )


def _looked(weights: StackWeights) -> RegionVerified:
    try:
        check = weights.store.verify(weights.prefix, weights.stack.needs)
        return RegionVerified(weights, check)
    except NotFoundError as error:
        hint = f"To bring them, run: tpuflex weights push --stack {weights.stack.name}"
        where = f"{weights.elsewhere}: " if weights.elsewhere else ""
        return RegionVerified(weights, error=NotFoundError(f"{where}{error.message}", hint=hint))
    except TpuflexError as error:
        return RegionVerified(weights, error=error)


def _judged(
    looked: RegionVerified, local: Manifest | None, pushed: str | None, home: str | None
) -> RegionVerified:
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
        return replace(looked, compared=compared)
    error = WeightsError(
        f"{weights.place} is not as it should be"
        f" (the manifest there has the SHA-256 {check.sha256}):\n" + "\n".join(lines),
        hint=_advice(weights, others=not all(compared.values())),
    )
    return replace(looked, compared=compared, error=error)


def _advice(weights: StackWeights, *, others: bool) -> str:
    """What to do about a set that is not right; ``others``: it is another than it should be,
    which no push replaces in the library."""
    if others and in_library(weights.stack):
        return other_set_advice(weights)
    stack = weights.stack.name
    return f"To bring the right weights back, run: tpuflex weights push --stack {stack}"


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
