"""The pure rules of the emulated Cloud Storage."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_cloud.core.errors import CloudError
from embedded_cloud.services.storage.downloads import NotSatisfiable, Slice, requested_slice
from embedded_cloud.services.storage.errors import Preconditions
from embedded_cloud.services.storage.object_handlers import Query, glob_pattern, select
from embedded_cloud.services.storage.upload_handlers import read_related
from embedded_cloud.services.storage.uploads import ContentRange, bytes_to_skip, persisted

_NAMES = ["a", "a/b", "a/c/d", "b!", "b/1", "b/2", "c"]


def _select(names: list[str], **query: object) -> tuple[list[str], list[str], str | None]:
    listing = select(((name, name, name) for name in sorted(names)), Query(**query))  # type: ignore[arg-type]
    return listing.items, listing.prefixes, listing.last


@pytest.mark.parametrize(
    ("query", "items", "prefixes"),
    [
        ({}, sorted(_NAMES), []),
        ({"prefix": "a"}, ["a", "a/b", "a/c/d"], []),
        ({"delimiter": "/"}, ["a", "b!", "c"], ["a/", "b/"]),
        ({"prefix": "a/", "delimiter": "/"}, ["a/b"], ["a/c/"]),
        ({"start_offset": "a/c", "end_offset": "b/2"}, ["a/c/d", "b!", "b/1"], []),
        ({"match_glob": "*/*"}, ["a/b", "b/1", "b/2"], []),
        ({"match_glob": "**/d"}, ["a/c/d"], []),
        ({"match_glob": "b{!,/[12]}"}, ["b!", "b/1", "b/2"], []),
        ({"match_glob": "?"}, ["a", "c"], []),
    ],
)
def test_list_shows_what_the_query_names(
    query: dict[str, object], items: list[str], prefixes: list[str]
) -> None:
    """Prefix, delimiter, offsets and globs each pick their names."""
    assert _select(_NAMES, **query) == (items, prefixes, None)


@given(
    names=st.lists(st.text("ab/!", min_size=1, max_size=5), unique=True, max_size=12),
    limit=st.integers(1, 4),
    delimiter=st.sampled_from(["", "/"]),
)
def test_pages_join_to_the_whole(names: list[str], limit: int, delimiter: str) -> None:
    """With any page size, the pages list everything once and in order."""
    whole_items, whole_prefixes, _ = _select(names, delimiter=delimiter)
    items: list[str] = []
    prefixes: list[str] = []
    after: str | None = ""
    while after is not None:
        more, folded, after = _select(names, delimiter=delimiter, limit=limit, after=after)
        assert len(more) + len(folded) <= limit
        items += more
        prefixes += folded
    assert (items, prefixes) == (whole_items, whole_prefixes)


def test_a_folder_marker_is_shown_beside_its_prefix_when_asked() -> None:
    """includeTrailingDelimiter shows the object whose name is the prefix itself."""
    shown = _select(["a/", "a/b"], delimiter="/", include_trailing_delimiter=True)
    assert shown == (["a/"], ["a/"], None)


def test_glob_escapes_what_is_special_to_regular_expressions() -> None:
    """A dot in a glob is a dot."""
    assert re.fullmatch(glob_pattern("a.b*"), "a.bc")
    assert not re.fullmatch(glob_pattern("a.b*"), "axbc")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Slice(0, 10, False)),
        ("bytes=0-3", Slice(0, 4, True)),
        ("bytes=4-", Slice(4, 6, True)),
        ("bytes=-3", Slice(7, 3, True)),
        ("bytes=-30", Slice(0, 10, True)),
        ("bytes=8-100", Slice(8, 2, True)),
        ("bytes=0-1,3-4", Slice(0, 10, False)),
        ("bytes=5-2", Slice(0, 10, False)),
        ("lines=1-2", Slice(0, 10, False)),
    ],
)
def test_ranges_are_read_as_the_rfc_says(header: str, expected: Slice) -> None:
    """First, last and suffix positions; anything else is ignored."""
    assert requested_slice(header, 10) == expected


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-20", "bytes=-0"])
def test_a_range_after_the_end_cannot_be_satisfied(header: str) -> None:
    """A range that begins after the last byte is answered with 416."""
    with pytest.raises(NotSatisfiable):
        requested_slice(header, 10)


@pytest.mark.parametrize(
    ("conditions", "generation", "met"),
    [
        (Preconditions(), 5, True),
        (Preconditions(generation_match=5), 5, True),
        (Preconditions(generation_match=4), 5, False),
        (Preconditions(generation_match=0), 0, True),
        (Preconditions(generation_match=0), 5, False),
        (Preconditions(generation_not_match=4), 5, True),
        (Preconditions(generation_not_match=5), 5, False),
        (Preconditions(metageneration_match=1), 5, True),
        (Preconditions(metageneration_match=2), 5, False),
        (Preconditions(metageneration_not_match=1), 5, False),
    ],
)
def test_preconditions_of_a_write(conditions: Preconditions, generation: int, met: bool) -> None:
    """A condition that does not hold is 412; generation 0 means "not there"."""
    if met:
        conditions.check(generation, 1, read=False)
        return
    with pytest.raises(CloudError) as caught:
        conditions.check(generation, 1, read=False)
    assert caught.value.http_status == 412
    assert caught.value.legacy_reason == "conditionNotMet"


@pytest.mark.parametrize("header", ["bytes 5-4/10", "bytes 0-9/5", "0-9/10", "bytes 0-"])
def test_nonsense_content_ranges_are_refused(header: str) -> None:
    """An impossible range is 400."""
    with pytest.raises(CloudError, match="Content-Range"):
        ContentRange.parse(header)


def test_only_whole_quanta_of_an_unfinished_upload_count() -> None:
    """256 KiB steps, as on Google; a chunk may overlap what was received but leave no gap."""
    assert persisted(300 * 1024) == 256 * 1024
    assert bytes_to_skip(100, 60) == 40
    with pytest.raises(CloudError, match="exceeds already uploaded size of 100"):
        bytes_to_skip(100, 101)


@pytest.mark.parametrize("newline", [b"\r\n", b"\n"])
@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("quote", ['"', "'", ""])
async def test_related_bodies_are_parsed_wherever_they_are_cut(
    newline: bytes, step: int, quote: str
) -> None:
    """The boundary is found in pieces of any size, and bytes that resemble it are kept."""
    media = b"\r\n--not the boundary\r\n--\n" * 3
    whole = newline.join(
        [
            *(b"--=b=", b"Content-Type: application/json", b"", b'{"name":"x"}', b"--=b="),
            *(b"Content-Type: text/plain", b"", media, b"--=b=--", b""),
        ]
    )

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(whole), step):
            yield whole[at : at + step]

    related = await read_related(f"multipart/related; boundary={quote}=b={quote}", pieces())
    assert related.metadata == b'{"name":"x"}'
    assert related.content_type == "text/plain"
    assert b"".join([piece async for piece in related.media]) == media


async def test_a_related_body_cut_short_is_refused() -> None:
    """A body that ends before its last boundary is an error, not a short object."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"--b\r\n\r\n{}\r\n--b\r\n\r\nhalf of it"

    related = await read_related("multipart/related; boundary=b", pieces())
    with pytest.raises(CloudError, match="ends before"):
        _ = [piece async for piece in related.media]
