"""What `tpuflex up` does before it requests chips: secrets and weights.

Chips are billed from the moment they are granted, so everything that the host needs is put in
place first, and it is settled which weights the host may serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.places import weights_prefix
from tpuflex.deploy.secret_versions import (
    check_certificate,
    check_existing_secrets,
    ensure_versions,
    require_certificate,
)
from tpuflex.errors import AlreadyExistsError, TpuflexError, WeightsError
from tpuflex.planning.model_files import left_out_text
from tpuflex.settings.weights_source import is_immutable
from tpuflex.weights.copies import fill_regions, filling_texts, lacking_texts
from tpuflex.weights.library import in_library, require_programs_key
from tpuflex.weights.push_record import PushedWeights, remember
from tpuflex.weights.source import check_source, check_source_reading, source_model
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import require_pinned, require_shared
from tpuflex.weights.stored_set import files_text
from tpuflex.weights.trust import (
    PIN_KEY,
    Choice,
    Trust,
    Weights,
    choose,
    missing,
    refuse_other_word,
    unknown,
)
from tpuflex.weights.use import note_weights_use
from tpuflex.weights.verification import checked, require_source

if TYPE_CHECKING:
    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.weights.stack_weights import StackWeights

BUCKET = "gcp:storage/bucket:Bucket"


@dataclass(frozen=True, slots=True)
class WeightsPlan:
    """What an `up` would do about the weights.

    Attributes:
        lines: what it would copy and delete, a line each.
        from_source: what it would do with their source; empty for nothing.
    """

    lines: tuple[str, ...]
    from_source: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """Something that is looked at before chips are requested.

    Attributes:
        what: what it is, in words.
        look: gives what an `up` would do about it, a line each; raises what it would refuse.
        first: whether nothing after it can be looked at where it raises.
    """

    what: str
    look: Callable[[], Iterable[str] | None]
    first: bool = False


@dataclass(frozen=True)
class EndpointPreparation:
    """What the program awaits before it requests chips.

    Attributes:
        weights: the stack's weights, in its home.
        report: takes the progress.
        cancelled: whether the user pressed Ctrl-C.
        accepted: the hash of the weights that the user accepts by name.
        awaited: whether the user allows that there are no weights yet.
        before: gives the weights that the slice in the state was made for.
    """

    weights: StackWeights
    report: Report
    cancelled: Callable[[], bool]
    accepted: str | None = None
    awaited: bool = False
    before: Callable[[], PlannedWeights | None] = lambda: None

    @property
    def cloud(self) -> Connection:
        """The stack's cloud."""
        return self.weights.cloud

    async def planned(self, bucket: str) -> str | None:
        """As :meth:`tpuflex.components.endpoint_args.Preparation.planned`."""
        del bucket  # it follows from the stack's names, known here
        return await asyncio.to_thread(self._look)

    async def ready(self, bucket: str, secret_ids: Mapping[str, str]) -> str:
        """As :meth:`tpuflex.components.endpoint_args.Preparation.ready`."""
        del bucket, secret_ids
        return await asyncio.to_thread(self._prepare)

    def check(self) -> None:
        """Refuse what :meth:`ready` would refuse, as far as that can be seen without making
        anything.

        Raises:
            WeightsError: nothing says that the weights in the bucket are the right ones, or there
                are none, or damaged ones, and the stack names no source.
            AlreadyExistsError: the bucket belongs to another owner.
            NotFoundError: the TLS certificate is not there, or the library that the stack names, or
                its bucket, or its key for compiled programs.
            ConflictError: a secret of the user's own is disabled.
            AccessError: weights are to be pushed, and the caller may not.
            SettingsError: it is of no use, or the source is none.
        """
        for each in self.looks():
            for line in each.look() or ():
                self.report(line)

    def looks(self, *, reading: bool = False) -> Iterator[Look]:
        """What is looked at before chips are requested, in order.

        Args:
            reading: whether by somebody who only reads, and perhaps on another machine than `up`:
                no value of a secret is read.
        """
        cloud = self.cloud
        from_source: list[str] = []

        def weights() -> tuple[str, ...]:
            found = self.plan_weights()
            from_source.extend(filter(None, (found.from_source,)))
            return (*found.lines, *from_source) if reading else found.lines

        def source() -> Iterable[str]:
            if reading:
                left_out = check_source_reading(cloud)
                return [f"weights: {left_out_text(left_out)}"] if left_out else []
            check_source(cloud.stack, cloud)
            require_shared(cloud, pushes=True)
            return []

        yield Look("the secrets that are yours", lambda: check_existing_secrets(cloud))
        certificate = require_certificate if reading else check_certificate
        yield Look("the TLS certificate", lambda: certificate(cloud))
        yield Look("the bucket for the weights", lambda: require_shared(cloud), first=True)
        yield Look("the key for compiled programs", lambda: require_programs_key(cloud))
        yield Look("the weights", weights)
        if from_source:
            yield Look("the source of the weights", source)

    def require_known_push(self) -> None:
        """Refuse to push weights that may be others by now than when a plan was approved.

        Raises:
            WeightsError: they would be pushed from a source that may change, and nothing pins them.
            TpuflexError: as :meth:`check`.
        """
        weights, trust = self._question(empty=not self.weights.exists())
        source = self.cloud.stack.settings.model.weights.source
        if choose(weights, trust) is Choice.PUSH and source is not None and _may_change(self.cloud):
            raise WeightsError(
                f"The approved plan pushes {source} to {weights.place}, and does not say which"
                " weights that are: they may be others by now. Nothing was changed.",
                hint=f"Push them before the plan is made: tpuflex weights push --stack"
                f" {weights.stack}\nOr write the hash that `tpuflex weights hash --stack"
                f" {weights.stack}` prints to {PIN_KEY}.",
            )

    def plan_weights(self) -> WeightsPlan:
        """What :meth:`ready` would do about the weights, as far as that can be seen without asking
        their source.

        Raises:
            WeightsError, AlreadyExistsError, NotFoundError: as :meth:`check`.
            ConflictError: other weights are there under their name already, or in another region
                of the stack.
            TpuflexError: it cannot be determined.
        """
        cloud = self.cloud
        weights, trust = self._question(empty=not self.weights.exists())
        choice = choose(weights, trust)
        lost = _lost_texts(cloud, weights)
        if choice is Choice.AWAIT:
            return WeightsPlan(tuple(lost))
        source = cloud.stack.settings.model.weights.source
        refused = ", and refused if it is not the pinned set" if trust.pinned else ""
        if choice is Choice.PUSH or weights.found is None:
            require_pinned(self.weights)
            if _may_change(cloud):
                refused = "; `up --expect` refuses that unless they are pinned, or pushed before"
            pushed = f"weights: {source} is pushed to {weights.place}{refused}"
            return WeightsPlan((*lost, *lacking_texts(self.weights)), pushed)
        lines = (*lost, *filling_texts(self.weights, weights.found))
        if choice is Choice.COMPARE:
            same = "is served if it is the same, and refused if not"
            return WeightsPlan(
                lines, f"weights: {weights.place} is compared with {source}: it {same}"
            )
        problems = checked(self.weights, weights).problems
        if not problems:
            return WeightsPlan(lines)
        wrong = f"cannot be served as it is ({problems[0]})"
        require_source(weights, problems)
        again = f"{source} is pushed there again{refused}"
        return WeightsPlan(lines, f"weights: {weights.place} {wrong}; {again}")

    def _look(self) -> str | None:
        try:
            weights, trust = self._question()
        except TpuflexError as error:
            # A preview shows what it can; an update would fail with this error.
            self.report(
                f"  warning  the weights in the bucket cannot be looked at: {error.message}"
            )
            return None
        refuse_other_word(weights, trust)
        return weights.found

    def _prepare(self) -> str:
        require_shared(self.cloud)
        ensure_versions(self.cloud, self.report)
        ready = self._ensure_weights()
        fill_regions(self.weights, ready, self.report, self.cancelled)
        return ready

    def _question(self, *, empty: bool = False) -> tuple[Weights, Trust]:
        """Which weights there are, and which there is a reason to trust; ``empty``: there is no
        bucket to look into."""
        cloud = self.cloud
        settings = cloud.stack.settings.model.weights
        bucket, prefix = self.weights.bucket, self.weights.prefix
        found = None if empty else self.weights.found()
        usable = found.sha256 if found is not None and found.manifest is not None else None
        before = self.before()
        # A library has the set under its name in every region, also where a home has moved to.
        same_place = before is not None and (
            before.prefix == prefix and (before.bucket == bucket or in_library(cloud.stack))
        )
        return (
            Weights(
                self.weights.place,
                cloud.stack.name,
                usable,
                settings.source is not None,
            ),
            Trust(
                pinned=settings.manifest_sha256,
                accepted=self.accepted,
                planned=before.manifest_sha256 if before is not None and same_place else None,
                pushed=PushedWeights(cloud.stack.own_files).get(bucket, prefix),
                awaited=self.awaited,
            ),
        )

    def _ensure_weights(self) -> str:
        """Have the right weights in the bucket, pushed from their source if necessary; the hash
        of their manifest.

        The bucket is compared with the manifest by size and checksum, because a truncated file
        would keep chips waiting that are already billed.

        Raises:
            WeightsError: nothing says that the weights in the bucket are the right ones, they are
                damaged and nothing can mend them, or the source cannot be read.
            InterruptedByUser: the user pressed Ctrl-C.
        """
        weights, trust = self._question()
        choice = choose(weights, trust)
        if choice is Choice.SERVE and weights.found is not None:
            problems = checked(self.weights, weights).problems
            if not problems:
                remember(self.weights, weights.found)
                note_weights_use(self.weights, self.report)
                return weights.found
            for problem in problems:
                self.report(f"  warning  the set in the bucket cannot be served: {problem}")
            require_source(weights, problems)
        if choice is Choice.AWAIT:
            self.report(f"  warning  {weights.place} holds no weights: the host will wait for them")
            return str(trust.pinned)

        stack = self.cloud.stack
        source = stack.settings.model.weights.source
        if source is None:  # or nothing would be pushed or compared
            raise missing(weights)
        report = push_weights(
            self.weights,
            source_model(stack, source, self.report, lambda: self.cloud),
            self.report,
            self.cancelled,
            unless_there=unknown(weights, trust) if choice is Choice.COMPARE else None,
        )
        if report.sent:
            self.report(
                f"  pushed   weights: {files_text(len(report.sent))}, "
                f"{report.bytes_sent / 1e6:.1f} MB in {report.seconds:.1f} s"
            )
        note_weights_use(self.weights, self.report)  # what was there already is not rewritten
        return report.manifest.sha256


def _may_change(cloud: Connection) -> bool:
    """Whether a push may send other files tomorrow than today."""
    weights = cloud.stack.settings.model.weights
    if weights.manifest_sha256 is not None or weights.source is None:
        return False
    return not is_immutable(weights.source)


def _lost_texts(cloud: Connection, weights: Weights) -> list[str]:
    """The sets in the stack's own bucket that are deleted with it, where the stack file has moved
    the ``weights`` into the library, a line each; not one that the library has, too.

    Raises:
        TpuflexError: it cannot be looked at.
    """
    stack = cloud.stack
    if not in_library(stack):
        return []
    try:
        if not cloud.is_there(cloud.made_bucket):
            return []
    except AlreadyExistsError:  # another owner's, which stays
        return []
    from tpuflex.weights.bucket import weights_bucket

    project, environ = stack.settings.project, cloud.environ
    own = weights_bucket(cloud.made_bucket, project=project, environ=environ)
    kept = weights_prefix(stack.settings.model) if weights.found is not None else None
    return [
        f"  warning  gs://{cloud.made_bucket}/{each.prefix}, {each.total_bytes / 1e9:.2f} GB, is"
        " deleted with that bucket: to keep it, name its model and revision in the stack file, and"
        f" run `tpuflex weights push --stack {stack.name}`"
        for each in own.list()
        if each.prefix != kept
    ]
