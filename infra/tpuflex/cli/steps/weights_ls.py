"""The steps of `tpuflex weights ls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.cli.weights_uses import Uses, weights_uses

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.output import Output
    from tpuflex.gcp.weights_report import StoredWeights


def run_weights_ls(cloud: Cloud, output: Output) -> None:
    """Print the sets of weights in the bucket of the stack of ``cloud``.

    Raises:
        NotFoundError: there is no bucket.
        AccessError, ApiError: it cannot be read.
    """
    stored = cloud.weights.list()
    uses = weights_uses(cloud) if stored else Uses({})
    output.document(
        [
            {
                "prefix": one.prefix,
                "complete": one.manifest is not None,
                "files": one.files,
                "bytes": one.total_bytes,
                "beside": one.beside,
                "beside_bytes": one.beside_bytes,
                "source": one.source,
                "last_used": one.used,
                "in_use": list(uses.of(one.prefix)),
                "in_use_known": not uses.unseen,
            }
            for one in stored
        ]
    )
    if not stored:
        output.result("The bucket holds no weights.")
        return
    output.table(
        ("PREFIX", "FILES", "MB", "MANIFEST", "USED", "SOURCE"),
        [
            (
                one.prefix,
                str(one.files),
                f"{one.total_bytes / 1e6:.1f}",
                _written(one),
                "now" if uses.of(one.prefix) else last_used_text(one),
                one.source or "-",
            )
            for one in stored
        ],
    )
    for line in uses.unseen:
        output.result(f"Not looked at, so more may be in use: {line}")


def last_used_text(one: StoredWeights) -> str:
    """When ``one`` was last used, in words."""
    return "not known" if one.used is None else one.used.isoformat()


def _written(one: StoredWeights) -> str:
    if one.manifest is None:
        return "incomplete"
    return f"complete, {one.beside} beside" if one.beside else "complete"
