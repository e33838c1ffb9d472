"""What `tpuflex up` does before it requests chips: secrets and weights.

Chips are billed from the moment they are granted, so everything that the host needs is put in
place first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.config import weights_prefix
from tpuflex.errors import InterruptedByUser, NotFoundError, WeightsError
from tpuflex.naming import API_KEY, HF_TOKEN

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.output import Output
    from tpuflex.cli.stack import OpenStack
    from tpuflex.components.endpoint_args import Prepare
    from tpuflex.gcp.weights_report import PushReport

BUCKET = "gcp:storage/bucket:Bucket"

Say = Callable[[str], None]


def preparation(cloud: Cloud, say: Say, output: Output, cancelled: Callable[[], bool]) -> Prepare:
    """The coroutine function that the program awaits before it requests chips.

    Args:
        cloud: the stack's cloud.
        say: takes a line of progress.
        output: shows the progress of a transfer.
        cancelled: whether the user pressed Ctrl-C.
    """

    def run() -> None:
        ensure_secrets(cloud, say)
        ensure_weights(cloud, say, output, cancelled)

    async def prepare(bucket: str, secret_ids: Mapping[str, str]) -> None:
        del bucket, secret_ids  # both follow from the stack's names, known here
        await asyncio.to_thread(run)

    return prepare


def ensure_secrets(cloud: Cloud, say: Say) -> None:
    """Make sure that every secret version that the host fetches exists.

    Raises:
        NotFoundError: the pinned version of the Hugging Face token, which only the user can
            add, does not exist.
        TpuflexError: Secret Manager refused.
    """
    pinned = cloud.stack.settings.secrets
    before = {version.number for version in cloud.secrets.list_versions(cloud.secret(API_KEY))}
    version = cloud.secrets.ensure_api_key(cloud.secret(API_KEY), pinned.api_key_version)
    if version.number not in before:
        say(f"  created  API key, version {version.number} of {cloud.stack.names.secret(API_KEY)}")
    if pinned.hf_token_version is None:
        return
    numbers = {version.number for version in cloud.secrets.list_versions(cloud.secret(HF_TOKEN))}
    if pinned.hf_token_version not in numbers:
        raise NotFoundError(
            f"Version {pinned.hf_token_version} of the Hugging Face token does not exist.",
            hint=f"Add it: tpuflex secrets put {HF_TOKEN} --stack {cloud.stack.name}",
        )


def ensure_weights(cloud: Cloud, say: Say, output: Output, cancelled: Callable[[], bool]) -> None:
    """Push the model's weights from ``weights.source`` unless the bucket holds all of them.

    The bucket is compared with its manifest by size and checksum, because a truncated file
    would keep chips waiting that are already billed.

    Raises:
        WeightsError: the source is missing or cannot be read, or the weights in the bucket are
            damaged and there is no source.
        InterruptedByUser: the user pressed Ctrl-C.
    """
    model = cloud.stack.settings.model
    prefix = weights_prefix(model)
    stored = {weights.prefix: weights for weights in cloud.weights.list()}
    complete = prefix in stored and stored[prefix].manifest is not None
    problems = cloud.weights.verify(prefix) if complete else ()
    if complete and not problems:
        return
    for problem in problems:
        say(
            f"  warning  {problem.path} in the bucket does not match the manifest "
            f"({problem.problem})"
        )
    if model.weights.source is None and problems:
        raise WeightsError(
            f"{prefix} in the bucket does not match its manifest, and the stack names no source.",
            hint=f"Run: tpuflex weights push DIRECTORY --stack {cloud.stack.name}",
        )
    if model.weights.source is None:
        say(
            "  warning  the bucket does not hold the weights, and the stack names no source: the "
            f"host will wait for `tpuflex weights push DIRECTORY --stack {cloud.stack.name}`"
        )
        return
    directory = weights_directory(cloud, model.weights.source, say)
    report = push_weights(cloud, directory, output, cancelled)
    say(
        f"  pushed   weights: {files_text(len(report.sent))}, {report.bytes_sent / 1e6:.1f} MB "
        f"in {report.seconds:.1f} s"
    )


def weights_directory(cloud: Cloud, source: str, say: Say) -> Path:
    """The directory with the weights of ``source``, downloaded and converted if necessary.

    Raises:
        WeightsError: the source is missing or cannot be read.
    """
    from embedded_cloud.images import embedded_image, ensure_image
    from tpuflex.operate.model_source import resolve_source

    project = cloud.stack.project
    return resolve_source(
        source,
        project_root=project.root,
        home=project.home,
        # A conversion needs torch and transformers: the embedded serving image has both.
        python=lambda: ensure_image(embedded_image(), project.home, say).python,
        say=say,
    )


def check_source(stack: OpenStack) -> None:
    """Check that the stack's ``weights.source`` exists, without downloading anything.

    Raises:
        SettingsError: it is malformed, or the directory holds no checkpoint.
    """
    from tpuflex.operate.model_source import check_source as check

    source = stack.settings.model.weights.source
    if source is not None:
        check(source, project_root=stack.project.root)


def files_text(count: int) -> str:
    """``count`` files, in words."""
    return "1 file" if count == 1 else f"{count} files"


def push_weights(
    cloud: Cloud, directory: Path, output: Output, cancelled: Callable[[], bool]
) -> PushReport:
    """Push ``directory`` to the stack's bucket, showing the progress.

    Raises:
        WeightsError: the directory holds no weights, or a file cannot be read.
        NotFoundError: there is no bucket yet.
        InterruptedByUser: the user pressed Ctrl-C.
    """
    model = cloud.stack.settings.model
    with output.transfer("  pushing  weights") as show:

        def progress(done: int, total: int) -> None:
            if cancelled():
                raise InterruptedByUser("Stopped while the weights were being pushed.")
            show(done, total)

        return cloud.weights.push(
            directory,
            weights_prefix(model),
            model=model.name,
            revision=model.weights.revision,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            progress=progress,
        )
