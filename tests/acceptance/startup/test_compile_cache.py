"""What was compiled for the chips once is not compiled again, and only by our own word."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.startup.cached import PROGRAMS, cache_objects, new_host, run, told
from tests.startup.cloud import API_KEY, PROGRAMS_VERSION, VERSION
from tests.startup.host import StartupHost
from tpuflex.startup.compile_cache import pack, secret_of, signed, text_of


def test_what_was_compiled_is_saved_once_ready(saved: StartupHost) -> None:
    """An archive, and then its document, under the key of what was compiled."""
    archive, document = [each for each in saved.cloud.requests if "POST compile-cache/" in each]
    key = saved.compile_cache().name
    assert archive.startswith(f"POST compile-cache/{key}/")
    assert document == archive.replace(".tar", ".json")
    parts = json.loads(cache_objects(saved)[document.removeprefix("POST ")])["parts"]
    assert parts["image"] == "sha256:" + "ab" * 32
    assert parts["args"] == saved.config()["serving"]["args"]
    size = len(cache_objects(saved)[archive.removeprefix("POST ")])
    assert told(saved) == {"compiled": 2, "saved_bytes": size}


def test_programs_have_the_bucket_that_is_named_for_them(tmp_path: Path) -> None:
    """Beside a library of weights, programs are looked for in the endpoint's own bucket and kept
    there, and the weights come from the library's."""
    host = new_host(tmp_path)
    kept = host.config()["compile_cache"]
    host.cloud.config = host.config(compile_cache=kept | {"bucket": "bucket-2"})
    run(host)
    asked = [each for each in host.cloud.requests if "/storage/v1/b/" in each]
    host.close()
    assert host.cloud.uploaded_to == ["bucket-2", "bucket-2"]
    assert [each for each in asked if "/b/bucket-2/" in each] == ["GET /storage/v1/b/bucket-2/o"]
    assert not [each for each in asked if each.endswith("/bucket-1/o")]


def test_the_server_is_told_where_its_cache_is(saved: StartupHost) -> None:
    """Both variables name the one directory that outlives the container."""
    words = shlex.split(saved.docker_calls("run")[0])
    directory = saved.compile_cache("programs")
    assert f"VLLM_XLA_CACHE_PATH={directory}" in words
    assert f"JAX_COMPILATION_CACHE_DIR={directory}" in words
    assert {str(p.relative_to(directory)) for p in directory.rglob("*-cache")} == set(PROGRAMS)


def test_a_fresh_host_compiles_nothing(fresh: StartupHost) -> None:
    """After a renewal, the next host has the programs before its server starts, and saves
    nothing again."""
    before = set(fresh.cloud.objects)
    run(fresh)
    assert fresh.compiled() == []
    size = sum(map(len, PROGRAMS.values()))
    assert told(fresh) == {"from": "bucket", "files": 2, "bytes": size, "compiled": 0}
    assert set(fresh.cloud.objects) == before


def test_a_reboot_compiles_nothing_and_asks_nobody(fresh: StartupHost) -> None:
    """The host's disk has the cache after a reboot, without what a server wrote since READY."""
    run(fresh)
    foreign = fresh.compile_cache("programs", "jit_evil-" + "00" * 32 + "-cache")
    foreign.write_bytes(b"written by whoever broke into the server")
    fresh.cloud.requests.clear()
    fresh.reboot()
    run(fresh)
    assert fresh.compiled() == []
    assert told(fresh)["from"] == "host"
    assert not foreign.exists()
    assert fresh.cloud.asked("compile-cache/") == 0
    # Run once more beside the server at work, the script leaves its cache alone.
    run(fresh)
    assert told(fresh)["from"] == "host"
    assert not fresh.compile_cache("incoming").exists()
    assert fresh.compile_cache("programs").is_dir()


def test_bad_archives_are_passed_over(fresh: StartupHost) -> None:
    """What is half-written, cut short or somebody else's is ignored and told, and an older good
    one is used."""
    good = next(name for name in cache_objects(fresh) if name.endswith(".json"))
    prefix = good.rpartition("/")[0]
    document, archive = fresh.cloud.objects[good], fresh.cloud.objects[good[:-4] + "tar"]
    forged = {**json.loads(document), "files": 1}
    fresh.cloud.objects |= {
        f"{prefix}/29990101T000000Z-{'3' * 16}.tar": archive,  # its document never came
        f"{prefix}/29980101T000000Z-{'2' * 16}.json": json.dumps(forged).encode(),
        f"{prefix}/29970101T000000Z-{'1' * 16}.json": document,
        f"{prefix}/29970101T000000Z-{'1' * 16}.tar": archive[:-700],
    }
    output = run(fresh)
    assert fresh.compiled() == []
    assert "was not made with the present key" in output
    assert "cut short or altered" in output
    assert told(fresh)["from"] == "bucket"


def test_a_writer_of_the_bucket_runs_nothing(fresh: StartupHost, tmp_path: Path) -> None:
    """Whoever can write to the bucket, and has no key of the endpoint, gets no code onto the
    chips; the server compiles, and what it compiled is saved beside."""
    good = next(name for name in cache_objects(fresh) if name.endswith(".json"))
    evil = tmp_path / "evil"
    evil.mkdir()
    for path in PROGRAMS:
        (evil / path.rpartition("/")[2]).write_bytes(b"code of somebody else")
    parts = json.loads(fresh.cloud.objects[good])["parts"]
    document = pack(evil, tmp_path / "evil.tar", parts, b"a guess", 0.0)
    forged = f"{good.rpartition('/')[0]}/29990101T000000Z-{'f' * 16}"
    alone = f"{good.rpartition('/')[0]}/29991231T000000Z-{'f' * 16}"
    fresh.cloud.objects = {k: v for k, v in fresh.cloud.objects.items() if "compile" not in k} | {
        f"{forged}.json": json.dumps(document).encode(),
        f"{forged}.tar": (tmp_path / "evil.tar").read_bytes(),
        f"{alone}.json": fresh.cloud.objects[good],
    }
    output = run(fresh)
    assert fresh.compiled() == sorted(PROGRAMS)
    assert "was not made with the present key" in output
    assert "was not made with the present key" in str(told(fresh)["problem"])
    assert f"{alone}.tar cannot be read (HTTP 404)" in output
    assert sum(name.endswith(".json") for name in cache_objects(fresh)) == 3


def test_what_is_packed_was_there_before_ready(tmp_path: Path) -> None:
    """A program that is planted once READY is told has no code of the endpoint."""
    host = new_host(tmp_path)
    planted: list[Path] = []

    def plant(report: dict[str, str]) -> None:
        if report["phase"] == "READY" and not planted:
            planted.append(host.compile_cache("programs", "jit_evil-" + "00" * 32 + "-cache"))
            planted[0].write_bytes(b"written by whoever broke into the server")

    host.cloud.on_report = plant
    run(host)
    assert planted
    assert told(host)["compiled"] == 2
    archives = [body for name, body in cache_objects(host).items() if name.endswith(".tar")]
    assert len(archives) == 1
    assert b"jit_evil" not in archives[0]
    host.close()


def test_what_the_warm_up_compiles_is_packed(tmp_path: Path) -> None:
    """A program that the server compiles only when the warm-up asks is in the archive."""
    host = new_host(tmp_path)
    host.cloud.config = host.config(serving=host.config()["serving"] | {"warmup_s": 45})
    late = "jit_logprobs-" + "ef" * 32 + "-cache"

    def compile_late(report: dict[str, str]) -> None:
        if report["phase"] == "warmup":
            host.compile_cache("programs", late).write_bytes(b"compiled when asked for")

    host.cloud.on_report = compile_late
    run(host)
    host.close()
    assert told(host)["compiled"] == 3
    (archive,) = (body for name, body in cache_objects(host).items() if name.endswith(".tar"))
    assert late.encode() in archive


@pytest.mark.parametrize("command", ["rm", "find"])
def test_no_command_of_the_cache_ends_a_boot(fresh: StartupHost, command: str) -> None:
    """Where what a server left cannot be removed, or nothing put in its place, the next one
    goes without a cache, which is told, and never gets what was left."""
    run(fresh)
    foreign = fresh.compile_cache("programs", "jit_evil-" + "00" * 32 + "-cache")
    foreign.write_bytes(b"written by whoever broke into the server")
    fresh.reboot()
    pattern = {"find": "compile-cache"}.get(command, "compile-cache/*/programs")
    real = shutil.which(command)
    fresh.command(
        command,
        f'#!/bin/bash\n[[ $* != *{pattern}* ]] || exit 1\nexec {real} "$@"\n',
    )
    (fresh.directory / "docker.calls").unlink()
    run(fresh)
    mounted = "VLLM_XLA_CACHE_PATH" in fresh.docker_calls("run")[0]
    assert mounted == (command == "find")
    if not mounted:
        assert told(fresh) == {"problem": "what the last server has left could not be replaced"}
        # Nor is it taken for the work of a start that was cut short, the next time.
        (fresh.directory / "bin" / command).unlink()
        fresh.reboot()
        run(fresh)
    assert not foreign.exists()


def test_other_arguments_are_another_cache(fresh: StartupHost) -> None:
    """Programs of other arguments are not restored; names and ports make no other key."""
    serving = fresh.config()["serving"]
    fresh.cloud.config = fresh.config(serving=serving | {"args": ["--dtype", "float32"]})
    run(fresh)
    assert fresh.compiled() == sorted(PROGRAMS)
    first = fresh.compile_cache().name
    fresh.cloud.config = fresh.config(serving=serving | {"model_name": "other"})
    run(fresh)
    assert fresh.compiled() == []
    assert fresh.compile_cache().name != first


def test_an_exchanged_api_key_costs_no_programs(fresh: StartupHost) -> None:
    """Clients' keys sign nothing: with others, the next host compiles nothing."""
    fresh.cloud.secrets[VERSION] = "key-of-other-clients"
    run(fresh)
    assert fresh.compiled() == []
    assert told(fresh)["from"] == "bucket"


def test_who_has_a_clients_key_makes_no_programs(fresh: StartupHost) -> None:
    """What somebody signs with the endpoint's API key, which every client has and which a server
    that was broken into can read, reaches no server."""
    good = next(name for name in cache_objects(fresh) if name.endswith(".json"))
    document = json.loads(fresh.cloud.objects[good])
    forged = signed(document, secret_of(API_KEY.encode(), document["key"]))
    fresh.cloud.objects[good] = text_of(forged)
    run(fresh)
    assert fresh.compiled() == sorted(PROGRAMS)
    assert "was not made with the present key" in str(told(fresh)["problem"])


def test_with_another_key_for_programs_all_is_compiled_once_more(fresh: StartupHost) -> None:
    """After the key is exchanged, neither the bucket's nor the disk's archive is used; a host that
    cannot read it is READY, uses none and keeps none."""
    run(fresh)
    kept = fresh.config()["compile_cache"]
    second = PROGRAMS_VERSION.replace("versions/1", "versions/2")
    fresh.cloud.config = fresh.config(compile_cache=kept | {"key": second})
    fresh.reboot()
    run(fresh)
    assert fresh.compiled() == sorted(PROGRAMS)
    assert f"{second} cannot be read (HTTP 404)" in str(told(fresh)["problem"])

    fresh.cloud.secrets[second] = "another-programs-key"
    fresh.reboot()
    run(fresh)
    assert fresh.compiled() == sorted(PROGRAMS)
    assert sum(name.endswith(".json") for name in cache_objects(fresh)) == 2


@pytest.mark.parametrize(
    ("mode", "saves", "keeps"), [("host", False, True), ("none", False, False)]
)
def test_modes(tmp_path: Path, mode: str, saves: bool, keeps: bool) -> None:
    """M6: `host` keeps the cache on the host alone, `none` leaves the server to its image."""
    host = new_host(tmp_path)
    signed = {} if mode == "none" else {"key": PROGRAMS_VERSION}
    kept = {"mode": mode, "prefix": "compile-cache", **signed}
    host.cloud.config = host.config(compile_cache=kept)
    run(host)
    words = shlex.split(host.docker_calls("run")[0])
    assert any("VLLM_XLA_CACHE_PATH" in word for word in words) == keeps
    assert bool(cache_objects(host)) == saves
    assert host.cloud.asked("compile-cache/") == 0
    host.close()


def test_a_cache_that_cannot_be_read_or_saved_fails_no_boot(fresh: StartupHost) -> None:
    """A host that may not write its cache is READY, and says what is missing."""
    fresh.cloud.answers = {"/upload": [403] * 9}
    fresh.cloud.objects = {k: v for k, v in fresh.cloud.objects.items() if "compile" not in k}
    run(fresh)
    assert fresh.compiled() == sorted(PROGRAMS)
    assert told(fresh)["problem"] == "the compile cache is not saved: Cloud Storage answers 403"
    # A later run only uploads, as it may by then.
    fresh.cloud.answers = {}
    run(fresh)
    assert len(cache_objects(fresh)) == 2
