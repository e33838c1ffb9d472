"""M6: a bucket whose only compile cache must not be used: the host says why, by name, compiles by
itself, and is READY."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.startup.cached import PROGRAMS, cache_objects, run, told
from tests.startup.cloud import API_KEY
from tests.startup.host import StartupHost
from tpuflex.startup.compile_cache import FORMAT, key_of, secret_of, signed, text_of

Json = dict[str, Any]
#: The documents and archives of a cache: what they are exchanged for.
Archived = tuple[bytes | None, bytes | None]


def whole(document: Json, archive: bytes, **changes: object) -> Archived:
    """A cache with these words in its document, which has the endpoint's own code for its key."""
    secret = secret_of(API_KEY.encode(), document["key"])
    return text_of(signed({**document, **changes}, secret)), archive


def flipped(document: Json, archive: bytes) -> Archived:
    """One bit of the archive is another one."""
    damaged = bytearray(archive)
    damaged[len(damaged) // 2] ^= 1
    return text_of(document), bytes(damaged)


def of_another_key(document: Json, archive: bytes) -> Archived:
    """Another endpoint's: right in itself, and put where this one looks."""
    secret = secret_of(b"the key of another endpoint", document["key"])
    return text_of(signed(document, secret)), archive


def of_another_image(document: Json, archive: bytes) -> Archived:
    """The endpoint's own of another image, with another vLLM and JAX, put under this one's key."""
    parts = {**document["parts"], "image": "sha256:" + "cd" * 32}
    moved = {**document, "parts": parts, "key": key_of(parts)}
    return text_of(signed(moved, secret_of(API_KEY.encode(), moved["key"]))), archive


_NOT_OURS = "{name}.json is ignored: it was not made with the present key"
_OTHER_FORMAT = f"{{name}}.json is ignored: its format is not {FORMAT}"
_ALTERED = "the compile cache of the bucket is ignored: its archive is cut short or altered"
#: What is wrong -> what lies in the bucket, and what the host says of it. A host tries three: the
#: newest, which is the first of its line here, then the next ones.
CACHES: dict[str, dict[str, tuple[Callable[[Json, bytes], Archived], str]]] = {
    "cut short or altered": {
        "a document without its archive": (
            lambda document, _: (text_of(document), None),
            "{name}.tar cannot be read (HTTP 404)",
        ),
        "half of an archive": (
            lambda document, archive: (text_of(document), archive[: len(archive) // 2]),
            _ALTERED,
        ),
        "one bit": (flipped, _ALTERED),
    },
    "not this endpoint's": {
        "half of a document": (
            lambda document, archive: (text_of(document)[:-20], archive),
            "{name}.json is ignored: its document is not JSON",
        ),
        "foreign": (of_another_key, _NOT_OURS),
        "of another image under this key": (of_another_image, _NOT_OURS),
    },
    "of another version": {
        "a newer one": (
            lambda document, archive: whole(document, archive, format=FORMAT + 1),
            _OTHER_FORMAT,
        ),
        "a newer one that knows nothing of these words": (
            lambda document, archive: whole(
                {"key": document["key"], "chunks": ["sha256:" + "ef" * 32]},
                archive,
                format=FORMAT + 1,
            ),
            _OTHER_FORMAT,
        ),
        "an older one": (
            lambda document, archive: whole(document, archive, format=FORMAT - 1),
            _OTHER_FORMAT,
        ),
    },
}


def taken(host: StartupHost) -> tuple[str, Json, bytes]:
    """The one cache of the bucket of ``host``, which is then there no more: its name, document and
    archive."""
    objects = cache_objects(host)
    (name,) = [each.removesuffix(".json") for each in objects if each.endswith(".json")]
    for path in objects:
        del host.cloud.objects[path]
    return name, json.loads(objects[f"{name}.json"]), objects[f"{name}.tar"]


@pytest.mark.parametrize("line", CACHES)
def test_it_is_ignored_and_told(fresh: StartupHost, line: str) -> None:
    """Corrupt, half-written, foreign, too old or too new: nothing of it reaches the server, the log
    has the reason of each and `status` the last one, and what the server compiles is saved for the
    hosts after this one."""
    good, document, archive = taken(fresh)
    expected = []
    for number, (change, reason) in enumerate(CACHES[line].values()):
        name = f"{good.rpartition('/')[0]}/2999010{9 - number}T000000Z-{'f' * 16}"
        for extension, content in zip(("json", "tar"), change(document, archive), strict=True):
            if content is not None:
                fresh.cloud.objects[f"{name}.{extension}"] = content
        expected.append(reason.format(name=name))
    before = cache_objects(fresh)

    output = run(fresh)

    assert fresh.compiled() == sorted(PROGRAMS)
    for reason in expected:
        assert output.count(reason) >= expected.count(reason), reason
    report = told(fresh)
    assert (report["problem"], report["compiled"]) == (expected[-1], len(PROGRAMS))
    assert "from" not in report
    added = cache_objects(fresh).keys() - before.keys()
    assert sorted(each.rpartition(".")[2] for each in added) == ["json", "tar"]


def test_what_is_not_of_this_key_is_not_looked_at(fresh: StartupHost) -> None:
    """An archive whose host went away before its document, and the cache of another image, with
    another vLLM or JAX: neither is fetched, and nothing is said of them. The other image's stays
    for whoever goes back to it."""
    good, document, archive = taken(fresh)
    place, own = good.split("/")[0], document["key"]
    other = key_of({**document["parts"], "image": "sha256:" + "cd" * 32})
    kept = dict(zip(("json", "tar"), whole({**document, "key": other}, archive), strict=True))
    stamp = f"29990109T000000Z-{'f' * 16}"
    fresh.cloud.objects |= {f"{place}/{other}/{stamp}.{each}": kept[each] or b"" for each in kept}
    fresh.cloud.objects[f"{place}/{own}/{stamp}.tar"] = archive
    before = cache_objects(fresh)

    run(fresh)

    assert fresh.compiled() == sorted(PROGRAMS)
    assert "problem" not in told(fresh)
    assert fresh.cloud.asked(f"/{stamp}.") == 0
    assert before.items() < cache_objects(fresh).items()
