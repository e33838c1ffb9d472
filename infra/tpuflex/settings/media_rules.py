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
    reasons, needed = [], []
    if serving.isolation != "none":
        reasons.append("isolated from its host it connects to nothing")
        needed.append("isolation: none in tpuflex:serving, which gives it all rights on the host,")
    if egress == "google" and beyond:
        reasons.append("the hosts connect to Google's APIs only")
        needed.append("egress: internet in tpuflex:network")
    if reasons:
        name = (beyond or serving.media_domains)[0]
        yield Finding(
            "tpuflex:serving.media_domains",
            f"the server cannot fetch from {name}: {', and '.join(reasons)}",
            "Remove it and send media as data: URLs, or write "
            f"{' and '.join(needed).removesuffix(',')}.",
        )
