"""Rules about media that the server fetches: it has to be able to reach the named domains."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
from tpuflex.settings.model import Draft
from tpuflex.settings.serving import ServingSettings

_GOOGLE = ".googleapis.com"


def media_findings(draft: Draft, serving: ServingSettings) -> Iterator[Finding]:
    """What keeps the server of a stack on Google from fetching from its media domains."""
    if draft.cloud != "google" or not serving.media_domains:
        return
    egress = draft.network.egress if draft.network is not None else None
    beyond = [name for name in serving.media_domains if not name.endswith(_GOOGLE)]
    if egress == "google" and (beyond or serving.isolation != "none"):
        name = (beyond or serving.media_domains)[0]
        why = (
            "the hosts connect to Google's APIs only"
            if beyond
            else "an isolated container does not connect to Google's private range"
        )
        yield Finding(
            "tpuflex:serving.media_domains",
            f"the server cannot fetch from {name}: {why}",
            "Remove it and send media as data: URLs, or write egress: internet in tpuflex:network.",
        )
