"""M6: compiled programs in a library outlive the endpoint, because hosts know them by a key that
does, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.startup.cached import PROGRAMS, cache_objects, new_host, run, told
from tests.startup.cloud import API_KEY, VERSION
from tests.startup.host import StartupHost
from tpuflex.startup.compile_cache import secret_of, signed, text_of

SECRET = "projects/p/secrets/programs-us-east5"
LATEST = f"{SECRET}/versions/latest"
KEY = "library-canary-2718281828"
PLACE = "compile-cache/proj-dev-chat"
KEPT: dict[str, object] = {"mode": "bucket", "prefix": PLACE, "keys": {"us-east5": SECRET}}


def of_library(
    directory: Path, objects: dict[str, bytes] | None = None, *, api_key: str = API_KEY
) -> StartupHost:
    """A fresh host of an endpoint that keeps its programs in a library, which has ``objects``."""
    host = new_host(directory, objects)
    host.cloud.config = host.config(compile_cache=KEPT)
    host.cloud.secrets = {VERSION: api_key, LATEST: KEY}
    return host


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, bytes]:
    """What the library has of an endpoint that has served."""
    host = of_library(tmp_path / "first")
    run(host)
    host.close()
    return cache_objects(host)


def test_the_next_endpoint_of_the_name_compiles_nothing(
    kept: dict[str, bytes], tmp_path: Path
) -> None:
    """After `down` and `up` everything of the endpoint is another one, also its API key; the
    programs in its place in the library are used all the same, and nothing is saved again."""
    host = of_library(tmp_path / "next", kept, api_key="key-of-after-the-teardown")
    run(host)
    host.close()

    assert {name.rpartition("/")[0].rpartition("/")[0] for name in kept} == {PLACE}
    assert host.compiled() == []
    assert told(host)["from"] == "bucket"
    assert cache_objects(host) == kept


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


@pytest.mark.parametrize("status", [403, 404])
def test_without_the_key_nothing_is_used_and_nothing_kept(
    kept: dict[str, bytes], tmp_path: Path, status: int
) -> None:
    """A host that may not read the key, or finds none, is READY with what it compiles itself, and
    says what is missing."""
    host = of_library(tmp_path / "next", kept)
    host.cloud.answers = {"programs-us-east5": [status] * 99}
    run(host)
    host.close()

    assert host.compiled() == sorted(PROGRAMS)
    assert f"{SECRET} cannot be read (HTTP {status})" in str(told(host)["problem"])
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

    assert f"{SECRET} has no value of use: it is empty" in str(told(host)["problem"])
    assert cache_objects(host) == {}


def test_the_key_is_in_memory_alone(kept: dict[str, bytes], tmp_path: Path) -> None:
    """For root alone, in no log, and not in what the container gets."""
    host = of_library(tmp_path / "next", kept)
    run(host)
    host.close()

    (place,) = (each for each in host.files_with(KEY) if "cloud" not in each)
    assert place == "root/run/tpuflex/memory/compile-cache.key"
    assert (host.directory / place).stat().st_mode & 0o777 == 0o400


def test_a_host_in_a_region_without_a_key_says_so(tmp_path: Path) -> None:
    """A library has a key in each region; one for another region is not taken."""
    host = of_library(tmp_path)
    host.cloud.zone = "projects/1/zones/europe-west4-a"
    done = host.run()
    host.close()

    assert done.status != 0
    assert "compile_cache.keys has no secret for europe-west4, where this host is" in done.output
