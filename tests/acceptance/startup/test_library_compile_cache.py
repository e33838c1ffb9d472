"""Compiled programs in a library outlive the endpoint, because hosts know them by a key that
does, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.startup.cached import PROGRAMS, cache_objects, new_host, run, told
from tests.startup.cloud import API_KEY, VERSION
from tests.startup.host import StartupHost
from tpuflex.startup.compile_cache import secret_of, signed, text_of

LATEST = "projects/p/secrets/programs-us-east5/versions/latest"
KEY = "library-canary-2718281828"
PLACE = "compile-cache/proj-dev-chat"
KEPT: dict[str, object] = {"mode": "bucket", "prefix": PLACE, "key": LATEST}


def of_library(
    directory: Path, objects: dict[str, bytes] | None = None, *, api_key: str = API_KEY
) -> StartupHost:
    """A fresh host of an endpoint that keeps its programs in a library, which has ``objects``."""
    host = new_host(directory, objects)
    host.cloud.config = host.config(compile_cache=KEPT)
    host.cloud.secrets = {VERSION: api_key, LATEST: KEY}
    return host


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the library has of an endpoint that has served."""
    host = of_library(tmp_path_factory.mktemp("first"))
    run(host)
    host.close()
    return cache_objects(host)


def test_the_next_endpoint_of_the_name_compiles_nothing(
    kept: dict[str, bytes], tmp_path: Path
) -> None:
    """After `down` and `up` everything of the endpoint is another one, also its API key; the
    programs in its place in the library are used all the same, and nothing is saved again. What
    they are known by is for root alone, in no log, and not in what the container gets."""
    host = of_library(tmp_path / "next", kept, api_key="key-of-after-the-teardown")
    run(host)
    host.close()

    assert {name.rpartition("/")[0].rpartition("/")[0] for name in kept} == {PLACE}
    assert host.compiled() == []
    assert told(host)["from"] == "bucket"
    assert cache_objects(host) == kept
    (place,) = (each for each in host.files_with(KEY) if "cloud" not in each)
    assert place == "root/run/tpuflex/memory/compile-cache.key"
    assert (host.directory / place).stat().st_mode & 0o777 == 0o400


def test_who_has_the_endpoints_keys_makes_no_programs(
    kept: dict[str, bytes], tmp_path: Path
) -> None:
    """What the endpoint's API key has signed, which its clients may have, reaches no server."""
    (name,) = (each for each in kept if each.endswith(".json"))
    document = json.loads(kept[name])
    forged = text_of(signed(document, secret_of(API_KEY.encode(), document["key"])))
    host = of_library(tmp_path / "next", kept | {name: forged})
    run(host)
    host.close()

    assert host.compiled() == sorted(PROGRAMS)
    assert "was not made with the present key" in str(told(host)["problem"])


def test_after_a_new_key_all_is_compiled_once_more(kept: dict[str, bytes], tmp_path: Path) -> None:
    """`library up --new-programs-key`: neither the bucket's nor the disk's archive of before is
    used, and what is compiled then is known by the new one."""
    host = of_library(tmp_path / "next", kept)
    run(host)
    host.compiled()
    host.cloud.secrets[LATEST] = "library-canary-of-after"
    host.reboot()
    run(host)
    anew = host.compiled(), told(host)
    host.reboot()
    run(host)
    host.close()

    assert anew[0] == sorted(PROGRAMS)
    assert "was not made with the present key" in str(anew[1]["problem"])
    assert host.compiled() == []
    assert told(host)["from"] == "host"


def test_without_the_key_nothing_is_used_and_nothing_kept(
    kept: dict[str, bytes], tmp_path: Path
) -> None:
    """A host that may not read the key is READY with what it compiles itself, and says what is
    missing."""
    host = of_library(tmp_path / "next", kept)
    host.cloud.answers = {"programs-us-east5": [403] * 99}
    run(host)
    host.close()

    assert host.compiled() == sorted(PROGRAMS)
    assert f"{LATEST} cannot be read (HTTP 403)" in str(told(host)["problem"])
    assert cache_objects(host) == kept


def test_a_key_that_comes_late_keeps_what_was_compiled(tmp_path: Path) -> None:
    """A role that takes effect only while the model compiles is asked for again before READY."""
    host = of_library(tmp_path)
    host.cloud.answers = {"programs-us-east5": [403] * 4}
    run(host)
    host.close()

    assert host.compiled() == sorted(PROGRAMS)
    assert told(host)["compiled"] == len(PROGRAMS)
    assert sorted(name.rpartition(".")[2] for name in cache_objects(host)) == ["json", "tar"]


def test_a_value_that_is_none_ends_no_boot(tmp_path: Path) -> None:
    """Somebody has added an empty value, in Secret Manager's console perhaps."""
    host = of_library(tmp_path)
    host.cloud.secrets[LATEST] = " \n"
    run(host)
    host.close()

    assert f"{LATEST} has no value of use: it is empty" in str(told(host)["problem"])
    assert cache_objects(host) == {}


def test_one_endpoint_does_not_run_what_another_one_compiled(
    kept: dict[str, bytes], tmp_path: Path
) -> None:
    """One key signs for all endpoints of a library; an archive that somebody who may write the
    bucket copies from the place of one into that of another, whole, is not that one's."""
    moved = "compile-cache/proj-other-chat"
    host = of_library(tmp_path / "other")
    host.cloud.config = host.config(compile_cache=KEPT | {"prefix": moved})
    run(host)
    (own,) = {name.split("/")[2] for name in cache_objects(host)}
    host.close()
    (key,) = {name.split("/")[2] for name in kept}
    victim = of_library(
        tmp_path / "victim", {f"{moved}/{own}/{k.split('/')[3]}": v for k, v in kept.items()}
    )
    victim.cloud.config = victim.config(compile_cache=KEPT | {"prefix": moved})
    run(victim)
    victim.close()

    assert own != key
    assert victim.compiled() == sorted(PROGRAMS)
    assert "was not made with the present key" in str(told(victim)["problem"])


@pytest.mark.parametrize("status", [503, 400])
def test_what_an_earlier_boot_has_placed_is_not_signed_again(
    kept: dict[str, bytes], tmp_path: Path, status: int
) -> None:
    """A boot that was cut off has placed an archive of a key that is exchanged since. Where the new
    one cannot be read at first, the server starts without these programs, and what is signed once
    it can be is what this boot has compiled."""
    host = of_library(tmp_path / "next", kept)
    placed: list[Path] = []

    def plant(report: dict[str, str]) -> None:
        if report["phase"] == "health" and not placed:
            placed.append(host.compile_cache("programs", "jit_evil-" + "00" * 32 + "-cache"))
            placed[0].write_bytes(b"of somebody who had the key")
            host.compile_cache("ready").unlink(missing_ok=True)

    host.cloud.on_report = plant
    run(host)
    host.compile_cache("ready").unlink()  # as if it had been cut off before READY
    host.cloud.secrets[LATEST] = "library-canary-of-after"
    host.cloud.answers = {"programs-us-east5": [status] * 7}
    host.compiled()
    host.cloud.objects = {k: v for k, v in host.cloud.objects.items() if "compile" not in k}
    host.reboot()
    run(host)
    host.close()

    assert placed
    assert not placed[0].exists()
    assert host.compiled() == sorted(PROGRAMS)
    assert not [body for body in cache_objects(host).values() if b"jit_evil" in body]


def test_the_key_is_waited_for_beside_the_weights(kept: dict[str, bytes], tmp_path: Path) -> None:
    """Two minutes without Secret Manager are not 20 of compilation."""
    host = of_library(tmp_path / "next", kept)
    host.cloud.answers = {"programs-us-east5": [503] * 6}
    run(host)
    host.close()

    assert host.compiled() == []
    assert told(host)["from"] == "bucket"


def test_a_list_that_is_not_whole_is_told(kept: dict[str, bytes], tmp_path: Path) -> None:
    """Objects that hide the endpoint's archives from the first page cost a compilation, and the
    host says why."""
    host = of_library(tmp_path / "next", kept)
    host.cloud.page = 1
    (place,) = {name.rpartition("/")[0] for name in kept}
    host.cloud.objects[f"{place}/-0"] = b"of somebody who may write the bucket"
    run(host)
    host.close()

    assert host.compiled() == sorted(PROGRAMS)
    assert "there are more objects than are listed at a time" in str(told(host)["problem"])
