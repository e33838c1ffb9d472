"""Rules about the slice: that its run ends, which image it serves, and that all resources carry the
stack's labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.duration import format_duration, google_seconds
from tpuflex.host.report import CONFIG_KEY
from tpuflex.inventory.cloud_resource import marker_asked
from tpuflex.inventory.kinds import of_type
from tpuflex.naming import LABEL_OWNER, QUEUED_RESOURCE
from tpuflex.policy.planned import GCP_TPUS, Planned, json_object, unknown
from tpuflex.policy.stack import StackFacts
from tpuflex.policy.violations import Breach
from tpuflex.queued_resource.limits import LONGEST_RUN
from tpuflex.startup.served import release

_PINNED = re.compile(r".+@sha256:[0-9a-f]{64}")
_SHORTER = f'Write maxRunDuration: "14400s", or another one up to {format_duration(LONGEST_RUN)}.'


def endless_runs(planned: Planned, now: datetime) -> Iterator[Breach]:
    """Slices that nothing ends."""
    if planned.type in GCP_TPUS:
        yield Breach(
            "it runs, and is billed, until somebody deletes it",
            f"Make it as a {QUEUED_RESOURCE}, which has maxRunDuration.",
        )
    if planned.type != QUEUED_RESOURCE:
        return
    duration, end = (planned.inputs.get(key) for key in ("maxRunDuration", "terminationTime"))
    if unknown(duration) or unknown(end):
        yield Breach("when it ends is known only after the update", _SHORTER, advisory=True)
    elif duration is not None:
        yield from _run_length(duration)
    elif end is not None:
        yield from _run_end(end, now)
    else:
        yield Breach("it has no maxRunDuration, so nothing ends it", _SHORTER)


def _run_length(duration: object) -> Iterator[Breach]:
    seconds = google_seconds(duration)
    if seconds is None:
        yield Breach(f"maxRunDuration {duration!r} is no number of seconds", _SHORTER)
    elif not 0 < seconds <= LONGEST_RUN.total_seconds():
        yield Breach(f"maxRunDuration is {duration}, which is not within 7 days", _SHORTER)


def _run_end(end: object, now: datetime) -> Iterator[Breach]:
    try:
        moment = datetime.fromisoformat(str(end))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        yield Breach(f"terminationTime {end!r} is no moment (RFC 3339)", _SHORTER)
    elif moment - now > LONGEST_RUN + timedelta(minutes=1):
        yield Breach(f"terminationTime {end} is more than 7 days away", _SHORTER)


def unpinned_images(planned: Planned, facts: StackFacts) -> Iterator[Breach]:
    """Images that are named by a tag."""
    image = _image(planned, facts)
    if image is not None and not _PINNED.fullmatch(image):
        yield Breach(
            f"the serving image {image} is not named by a digest",
            "Write REPOSITORY@sha256:… as `docker buildx imagetools inspect` prints it.",
        )


def old_images(planned: Planned, facts: StackFacts) -> Iterator[Breach]:
    """Images with a vLLM that has known holes, and hosts that would let one serve.

    Of an image that the catalog does not know, only its host can tell: it asks the server.
    """
    image = _image(planned, facts)
    if image is None:
        return
    remedy = "Write a newer image; `tpuflex catalog images` lists those that are known."
    known = facts.vllm_versions.get(image.partition("@")[2])
    if known is not None and release(known.version) < release(known.floor):
        yield Breach(
            f"the serving image has vLLM {known.version}, which is older than {known.floor}", remedy
        )
    serving = (_boot(planned) or {}).get("serving")
    floor = serving.get("security_floor") if isinstance(serving, Mapping) else None
    if floor is not None and release(str(floor)) < release(SECURITY_FLOOR):
        yield Breach(
            f"its hosts would let a vLLM from {floor} on serve, and {SECURITY_FLOOR} is the oldest"
            " without known holes",
            f"Write {SECURITY_FLOOR} or more as the floor.",
        )


def unmarked(planned: Planned) -> Iterator[Breach]:
    """Resources of a kind that tpuflex makes, without a marker by which they are found again."""
    kind = of_type(planned.type)
    if kind is None or kind.found_by != "api" or planned.read:
        return
    key = "description" if kind.marker == "description" else kind.labels
    # The labels in a document are known when the document is.
    value = planned.inputs.get(kind.document or key)
    if isinstance(value, Mapping) and unknown(value.get(LABEL_OWNER)):
        value = value[LABEL_OWNER]
    remedy = f"Write the {key} that `tpuflex.naming.Names` gives."
    if unknown(value):
        # Ours are made of the state's id, which is drawn by the first update.
        if not planned.ours:
            yield Breach(f"its {key} are known only after the update", remedy, advisory=True)
    elif not marker_asked(kind, planned.inputs).owner:
        own = not planned.ours and planned.type != QUEUED_RESOURCE
        yield Breach(f"this {kind.name} has no owner marker in its {key}", remedy, own)


def _boot(planned: Planned) -> Mapping[str, object] | None:
    """What the hosts of ``planned`` boot with; None if it is not known, or no slice of ours."""
    metadata = planned.inputs.get("metadata")
    text = metadata.get(CONFIG_KEY) if isinstance(metadata, Mapping) else None
    return None if unknown(text) else json_object(text)


def _image(planned: Planned, facts: StackFacts) -> str | None:
    """The image that ``planned`` serves; that of the settings where only the update finds it out,
    because it stands beside the hash of weights that are still to be pushed."""
    if planned.type != QUEUED_RESOURCE:
        return None
    container = (_boot(planned) or {}).get("container")
    if isinstance(container, Mapping):
        return str(container.get("image") or "")
    metadata = planned.inputs.get("metadata")
    waits = unknown(metadata) or (
        isinstance(metadata, Mapping) and unknown(metadata.get(CONFIG_KEY))
    )
    return facts.image if waits else None
