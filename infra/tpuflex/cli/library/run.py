"""What the commands of `tpuflex library` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.cli.library_plan import library_report
from tpuflex.deploy.library import LibraryStatus, library_down, library_status, library_up
from tpuflex.planning.rates import month_text
from tpuflex.weights.stored_set import files_text, last_used_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Progress
    from tpuflex.terminal.output import Output
    from tpuflex.weights.stored_set import StoredWeights

_SETTING = "tpuflex:model.weights.bucket: library"


def run_library_up(
    invocation: Invocation,
    cloud: Connection,
    regions: Collection[str],
    *,
    new_programs_key: bool = False,
) -> None:
    """Make the library, and print its buckets; raises as :func:`library_up`."""
    output = invocation.output
    made = library_up(
        cloud,
        regions,
        library_report(invocation),
        consent=invocation.consent,
        new_programs_key=new_programs_key,
    )
    output.document(made.to_json())
    for region, name in made.buckets.items():
        output.result(f"  {region}  gs://{name}")
    output.result(
        f"Stacks of {made.project} keep their weights there with `{_SETTING}` in their file."
    )


def run_library_status(invocation: Invocation, cloud: Connection) -> None:
    """Print what the library holds; raises as :func:`library_status`."""
    output, library = invocation.output, library_status(cloud)
    output.document(library.to_json())
    output.heading(f"The library of {library.project}")
    _show(cloud, output, library)


def run_library_down(
    invocation: Invocation, cloud: Connection, *, with_readers: bool, dry_run: bool
) -> None:
    """Delete the library, and print what it held; raises as :func:`library_down`."""
    output = invocation.output

    def report(progress: Progress | LibraryStatus) -> None:
        if isinstance(progress, LibraryStatus):
            output.heading(f"To be deleted for good: the library of {progress.project}")
            _show(cloud, output, progress)
        else:
            invocation.report(progress)

    done = library_down(
        cloud, report, consent=invocation.consent, with_readers=with_readers, dry_run=dry_run
    )
    output.document(done.to_json())
    if dry_run:
        output.result("Nothing was changed (--dry-run).")
    else:
        output.result(
            f"Nothing is left of the library of {done.library.project}: its buckets and its secret"
            " were listed."
        )


def _show(cloud: Connection, output: Output, library: LibraryStatus) -> None:
    """Print the buckets, the models in them, and who may read."""
    found = library.buckets
    output.table(
        ("REGION", "MODELS", "PROGRAMS", "GIB", "COST", "BUCKET"),
        [
            (
                each.region,
                str(len(each.models)),
                f"{_gib(each.programs)} GiB" if each.programs else "-",
                _gib(each.size),
                month_text(each.size, each.region),
                each.bucket.name,
            )
            for each in found
        ],
    )
    rows = [(each, one) for each in found for one in each.models]
    if rows:
        output.result()
        output.table(
            ("REGION", "MODEL", "REVISION", "GIB", "COST", "USED", "SOURCE"),
            [
                (
                    each.region,
                    _named(one, one.manifest.model if one.manifest else one.prefix),
                    one.manifest.revision if one.manifest else "-",
                    _gib(one.total_bytes),
                    month_text(one.total_bytes, each.region),
                    "now" if each.in_use(one) else last_used_text(one),
                    one.source or "-",
                )
                for each, one in rows
            ],
        )
    if cloud.stack.embedded:
        output.result("These are Google's prices: the embedded cloud is free.")
    readers = [(each, who) for each in found for who in each.readers]
    if readers:
        output.result()
        output.table(
            ("REGION", "MAY READ", "BY", "BELOW"),
            [
                (
                    each.region,
                    who.member,
                    who.role.removeprefix("roles/"),
                    who.where or "all of it",
                )
                for each, who in readers
            ],
        )
        output.result("Roles on the whole project come on top of these.")


def _named(one: StoredWeights, name: str) -> str:
    """``name`` of a set, with what is wrong of it."""
    if one.manifest is None:
        return f"{name} (incomplete)"
    return f"{name} (damaged: {files_text(one.wrong)})" if one.wrong else name


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f}"
