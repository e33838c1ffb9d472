"""A hook of MkDocs: links that leave docs/ lead to the repository.

Pages link files of the project as GitHub reads them, ``../stacks/Pulumi.dev.yaml``. The site has no
such file. With ``repo_url`` in the configuration the link becomes one to the repository; without it
the text stays, and is no link. A file that is not there is a warning, which ends a strict build.
https://www.mkdocs.org/user-guide/configuration/#hooks
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>\.\.?/[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_BRANCH = "main"
_log = logging.getLogger("mkdocs.hooks.repository_links")


def on_page_markdown(markdown: str, page: Any, config: Mapping[str, Any], **_: object) -> str:
    """The text of a page as the site shows it."""
    docs = Path(config["docs_dir"])
    text, missing = rewritten(
        markdown, PurePosixPath(page.file.src_uri), docs, config["repo_url"] or ""
    )
    for target in missing:
        _log.warning("%s links %s, which is no file of the project", page.file.src_uri, target)
    return text


def rewritten(
    markdown: str, page: PurePosixPath, docs: Path, repository: str
) -> tuple[str, list[str]]:
    """``markdown`` with its links out of ``docs`` led to ``repository``, and those to nowhere.

    Args:
        markdown: the text of a page.
        page: where it is in ``docs``.
        docs: the directory of the pages, right below the project's.
        repository: address of the repository; empty if there is none.
    """
    missing: list[str] = []

    def lead(link: re.Match[str]) -> str:
        place = normpath(PurePosixPath(docs.name) / page.parent / link["target"])
        if place.startswith(f"{docs.name}/") or place == docs.name:
            return link[0]
        file = docs.parent / place
        if place.startswith("..") or not file.exists():
            missing.append(link["target"])
        if not repository:
            return link["text"]
        kind = "tree" if file.is_dir() else "blob"
        anchor = link["anchor"] or ""
        return f"[{link['text']}]({repository.rstrip('/')}/{kind}/{_BRANCH}/{place}{anchor})"

    parts, at = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(lead, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(lead, markdown[at:])]), missing
