"""Rules about labels: those of the user's leave room for tpuflex's own, and cannot be these."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
from tpuflex.settings.model import Draft

_KEY = "tpuflex:labels"
#: By what each of tpuflex's own labels begins: it finds its resources by them.
_OWN = "tpuflex-"
#: Those of Google's products begin so, and pulumi-gcp's (`goog-pulumi-provisioned`).
_GOOGLES = "goog-"
#: A resource has at most 64 (https://cloud.google.com/resource-manager/docs/labels-overview). A
#: node has five of tpuflex's own; a bucket four, and that of pulumi-gcp.
MOST = 64 - 5


def label_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the labels of a stack from being put on what it makes."""
    labels = draft.labels or {}
    for key in labels:
        for prefix, whose in ((_OWN, "tpuflex"), (_GOOGLES, "Google")):
            if key.startswith(prefix):
                yield Finding(
                    f"{_KEY}.{key}",
                    f"labels that begin with {prefix} are {whose}'s own",
                    "Write another key.",
                )
    if len(labels) > MOST:
        yield Finding(
            _KEY,
            f"{len(labels)} labels are too many: Google takes 64 of a resource, and {64 - MOST} are"
            " needed to find it again",
            f"Write at most {MOST}.",
        )
