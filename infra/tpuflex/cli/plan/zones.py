"""What `tpuflex zones` asks, and what it prints."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tpuflex.doctor.cloud import ProjectCloud
from tpuflex.doctor.quota import Pool, is_enough, quota_page
from tpuflex.doctor.zones import LastRequest, ZoneComparison, ZoneFacts, compare_zones
from tpuflex.doctor.zones import zones_of_stack as compared
from tpuflex.errors import NotFoundError
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.reading import Unread
from tpuflex.google.session import require_credentials
from tpuflex.planning.figure import SourceList
from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.queued_resource.snapshot import parse_time
from tpuflex.stack.progress import working
from tpuflex.terminal.money import show_sources

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.terminal.output import Output

_COLUMNS = ("ZONE", "OFFERED", "PREEMPTIBLE", "ON-DEMAND", "USD/H", "FLEX-START")
_UNKNOWN = "?"
_LIMIT_IS_NO_CAPACITY = (
    "A quota is a limit on what may be asked for, what exists already included, and no capacity:"
    " whether and when chips are granted, only a request tells. It costs nothing while it waits."
)


def zones_of_stack(invocation: Invocation, accelerator: str | None) -> ZoneComparison:
    """The zones for ``accelerator``, or for the stack's, in the stack's project.

    Raises:
        TpuflexError: the stack cannot be opened, or nothing answers.
    """
    try:
        stack = invocation.open_stack(deploying=False, by_catalog=True)
    except NotFoundError as error:
        if invocation.chosen_stack:
            raise
        hint = "Without a stack, name a project: `tpuflex zones v6e-4 --project my-project-id`"
        raise NotFoundError(error.message, hint=f"{error.hint}\n{hint}".strip()) from error
    name = accelerator or stack.settings.slice.accelerator_type
    connection = invocation.connect(stack, start=False)
    with working(invocation.report, f"Asking the zones for {name}"):
        return compared(connection, accelerator)


def zones_of_project(invocation: Invocation, accelerator: str, project: str) -> ZoneComparison:
    """The zones for ``accelerator`` in ``project``, with no stack.

    Raises:
        TpuflexError: there are no credentials, or nothing answers.
    """
    environ = invocation.environ
    cloud = ProjectCloud(project, environ)
    require_credentials(Endpoints.from_environ(environ), environ)
    with working(invocation.report, f"Asking the zones for {accelerator}"):
        return compare_zones(cloud, invocation.catalog, accelerator, invocation.now())


def is_project(text: str) -> bool:
    """Whether ``text`` may be the id of a project."""
    return re.fullmatch(PROJECT_PATTERN, text) is not None


def show_zones(output: Output, found: ZoneComparison) -> int:
    """Show the zones; the exit code."""
    output.document(found.to_json())
    row = found.accelerator
    chips = f"{row.chips} chip{'' if row.chips == 1 else 's'}"
    where = ", the embedded cloud" if found.embedded else ""
    output.heading(f"{row.name} ({chips}) in project {found.project}{where}")
    sources = SourceList()
    output.table(_COLUMNS, [_cells(each, sources) for each in found.zones])
    output.result()
    if any(each.chosen for each in found.zones):
        output.result("* a zone of the stack")
    output.result(
        f"PREEMPTIBLE and ON-DEMAND are the project's quota, of which it takes {found.units}."
        " By Google's page, Flex-start draws from the preemptible one; a user saw it draw from the"
        " other, so either counts."
    )
    _show_requests(output, found)
    _show_notes(output, found)
    _show_unread(output, found)
    show_sources(output, sources)
    output.result()
    output.result(_verdict(found))
    output.result(_LIMIT_IS_NO_CAPACITY)
    return found.exit_code


def _cells(facts: ZoneFacts, sources: SourceList) -> tuple[str, ...]:
    return (
        facts.zone + ("*" if facts.chosen else ""),
        _offered(facts),
        _quota(facts, "preemptible"),
        _quota(facts, "on-demand"),
        _price(facts, sources),
        _flex_start(facts, sources),
    )


def _offered(facts: ZoneFacts) -> str:
    if isinstance(facts.offer, Unread):
        return _UNKNOWN
    if not facts.offer.accelerator:
        return "no"
    return "yes" if facts.offer.runtime else "no runtime"


def _quota(facts: ZoneFacts, pool: Pool) -> str:
    """The limit of ``pool``, and what it is too small for."""
    if isinstance(facts.limits, Unread):
        return _UNKNOWN
    limit = facts.limits[pool]
    if limit is None:
        return "not listed"
    if limit.limit is None:
        return "no limit"
    enough = is_enough({pool: limit}, facts.units)
    return str(limit.limit) if enough else f"{limit.limit} < {facts.units}"


def _price(facts: ZoneFacts, sources: SourceList) -> str:
    amount = facts.usd_per_hour
    if amount is None or facts.price is None:
        return _UNKNOWN
    return f"{amount:.2f} {sources.references([facts.price.source])}"


def _flex_start(facts: ZoneFacts, sources: SourceList) -> str:
    """What was last seen: the project's own request, else what the catalog knows."""
    if isinstance(facts.request, LastRequest):
        return f"{facts.request.lifecycle} here"
    if facts.row is None:
        return _UNKNOWN
    return f"{facts.row.flex_start} {sources.references([facts.row.source])}"


def _show_requests(output: Output, found: ZoneComparison) -> None:
    requests = [(each.zone, each.request) for each in found.zones]
    lines = [
        f"  {zone}: {request.id} ({request.accelerator}), requested {_moment(request.requested)}:"
        f" {request.state}, {request.meaning}"
        for zone, request in requests
        if isinstance(request, LastRequest)
    ]
    if lines:
        output.result("\nRequested with Flex-start in this project, the newest of each zone:")
    for line in lines:
        output.result(line, hanging="    ")


def _show_notes(output: Output, found: ZoneComparison) -> None:
    noted = [(each.zone, each.row.note) for each in found.zones if each.row and each.row.note]
    if noted:
        output.result("\nNotes of the catalog:")
    for zone, note in noted:
        output.result(f"  {zone}: {note}", hanging="    ")


def _show_unread(output: Output, found: ZoneComparison) -> None:
    """Each reason for what is not known once, with what to do about it."""
    reasons: dict[tuple[str, str], list[str]] = {}
    if found.quota is not None:
        reasons[found.quota.why, str(found.quota.remedy)] = ["quota"]
    for each in found.zones:
        if each.unread is not None:
            why = each.unread.why.replace(each.zone, "ZONE")  # what differs in the same refusal
            reasons.setdefault((why, str(each.unread.remedy)), []).append(each.zone)
    if reasons:
        output.result("\nNot known:")
    for (why, remedy), named in reasons.items():
        where = "every zone" if len(named) == len(found.zones) else ", ".join(named)
        output.result(f"  {where}: {why}", hanging="    ")
        output.result("    -> " + remedy.replace("\n", "\n       "))


def _verdict(found: ZoneComparison) -> str:
    if found.best:
        return f"For tpuflex:slice.zones, the best first: {', '.join(found.best)}"
    possible = [each.zone for each in found.zones if each.possible]
    if possible:
        return f"Possible, and not known to take Flex-start: {', '.join(possible)}"
    if any(each.offered is not False for each in found.zones):
        return (
            f"No zone that offers {found.accelerator.name} has quota for it:"
            f" {quota_page(found.project)}"
        )
    return f"No zone of the catalog offers {found.accelerator.name} to this project."


def _moment(text: str) -> str:
    time = parse_time(text)
    return text if time is None else f"{time:%Y-%m-%d %H:%M} UTC"
