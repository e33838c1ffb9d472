"""Upstreams by URL: when they get requests, and what is known of them. Real servers on loopback."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.running_fleet import running_fleet, until, until_limit
from tests.gateway.upstream_server import (
    COMPLETED,
    COMPRESSED,
    KEY,
    MODEL,
    NEVER,
    UpstreamServer,
    metrics,
)
from tests.security.certificates import certificate
from tests.security.strangers import needs_second_uid, start_as_stranger
from tpuflex.gateway.connection import NEW_CONNECTION, open_session
from tpuflex.gateway.first_token import FirstTokenLimits
from tpuflex.gateway.outcome import Reason
from tpuflex.gateway.upstream import Want

LIMITS = FirstTokenLimits(1.5, 2.0)


def upstream(server: UpstreamServer, files: Path, **more: Any) -> dict[str, Any]:
    """The settings of an upstream, with a file that has its key."""
    key = files / "upstream.key"
    key.write_text(f"{KEY}\n")
    key.chmod(0o600)
    return {"url": server.url, "model": MODEL, "key_file": key.name, **more}


async def test_it_opens_once_it_has_completed_a_token(tmp_path: Path) -> None:
    """Its key, length and prices are known then."""
    async with UpstreamServer().running() as server:
        prices = {"usd_per_million_prompt": "0.25", "usd_per_million_generated": 2}
        one = upstream(server, tmp_path, **prices)
        async with running_fleet(tmp_path, upstreams={"a": one}) as running:
            there = running.one()
            connection = running.fleet.connection(there)

            assert there.open
            assert (there.limit.least, there.limit.most) == (16, 256)
            assert connection.max_model_len == 512
            assert (connection.prompt_usd_micros, connection.generated_usd_micros) == (0.25, 2)
            assert server.documents[0]["max_tokens"] == 1
            assert running.lines == [f"a is open: {MODEL} has answered."]
            assert (there.why, there.since) == ("", 0)
            assert KEY not in repr(connection)


async def test_one_that_only_chats(tmp_path: Path) -> None:
    """It is asked for a chat."""
    async with UpstreamServer().running() as server:
        server.answers = {"/v1/chat/completions": [COMPLETED]}
        async with running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running:
            assert running.one().open
            assert running.fleet.connection(running.one()).max_model_len is None


async def test_one_that_takes_no_temperature(tmp_path: Path) -> None:
    """OpenAI's reasoning models want `max_completion_tokens` alone."""
    async with UpstreamServer().running() as server:
        server.answers = {"/v1/chat/completions": [400, COMPLETED]}
        async with running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running:
            assert running.one().open
    assert server.documents[-1].keys() == {"model", "messages", "max_completion_tokens"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (503, "it has answered with status 503"),
        (302, "it has answered with status 302. No redirect is followed: write the URL to which"),
        (401, "it refuses its key"),
        ("{}", "a completion was answered without a token"),
        (COMPLETED.replace('tokens": 1', 'tokens": 0'), "without a token"),
        (COMPLETED.replace("usage", "used"), "without its usage, which limits need"),
        (COMPRESSED, "its answers are compressed"),
        (f"{' ' * 5_000_000}{COMPLETED}", "without a token"),
    ],
)
async def test_it_stays_closed_until_it_completes(
    tmp_path: Path, answer: str | int, why: str
) -> None:
    """It is asked again after 5 seconds; the reason is said once."""
    async with UpstreamServer().running() as server:
        server.answers["/v1/completions"] = [answer, answer, COMPLETED]
        async with running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running:
            assert not running.one().open
            await running.clock.move(5)
            await until(lambda: len(server.documents) == 2)
            await running.clock.move(4)
            assert why in running.lines[0]
            assert running.lines[1:] == [f"Nothing serves {MODEL} now."]
            assert (why in running.one().why, running.one().since) == (True, 0)
            await running.clock.move(1)
            await until(lambda: running.one().open)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"key_file": None}, "it wants a key. Write upstreams.a.key_file."),
        ({"url": "/other/v1"}, "answered with status 404. Is its model called org/model there?"),
        (
            {"url": ""},
            "answered with status 404. Does the URL end with /v1? It is http://127.0.0.1:",
        ),
    ],
)
async def test_what_is_wrong_with_how_it_is_written(
    tmp_path: Path, settings: dict[str, Any], advice: str
) -> None:
    async with UpstreamServer().running() as server:
        one = upstream(server, tmp_path)
        if "url" in settings:
            settings["url"] = f"{server.url.removesuffix('/v1')}{settings['url']}"
        async with running_fleet(tmp_path, upstreams={"a": one | settings}) as running:
            assert advice in running.lines[0]


async def test_a_model_loses_its_last_upstream(tmp_path: Path) -> None:
    """That is said each time; not as long as another one serves it."""
    async with UpstreamServer().running() as server:
        one = upstream(server, tmp_path)
        async with running_fleet(tmp_path, upstreams={"a": one, "b": one}) as running:
            nothing = f"Nothing serves {MODEL} now."
            for _ in range(2):
                for each in running.fleet.upstreams():
                    running.fleet.suspect(each, "it has failed")
                await running.until(lambda: all(each.open for each in running.fleet.upstreams()))
            assert [line for line in running.lines if "open" not in line] == [
                "a is closed: it has failed.",
                "b is closed: it has failed.",
                nothing,
            ] * 2


async def test_a_key_file_that_others_may_read(tmp_path: Path) -> None:
    """Nothing is sent with it; once that is mended, it opens."""
    async with UpstreamServer().running() as server:
        one = upstream(server, tmp_path)
        key = tmp_path / one["key_file"]
        key.chmod(0o644)
        async with running_fleet(tmp_path, upstreams={"a": one}) as running:
            assert server.asked == []
            assert "others may read or change it (mode 0644). Run: chmod 600" in running.lines[0]
            key.chmod(0o600)
            await running.clock.move(5)
            await until(lambda: running.one().open)


async def test_one_that_fails_is_closed_until_it_completes(tmp_path: Path) -> None:
    """What the relay sees counts at once, and a completion is asked for at once."""
    async with (
        UpstreamServer().running() as server,
        running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running,
    ):
        server.answers["/v1/completions"] = [500, COMPLETED]
        there = running.one()
        running.fleet.suspect(there, "it answered with 500")

        assert there.refusal(Want(MODEL, "interactive", 0, 1), LIMITS, 0) is Reason.NO_UPSTREAM
        await until(lambda: len(server.documents) == 2)
        assert not there.open
        await running.clock.move(5)
        await until(lambda: there.open)


@pytest.mark.parametrize("answer", [COMPLETED, 500])
async def test_one_that_is_doubted_is_open_as_long_as_it_makes_tokens(
    tmp_path: Path, answer: str | int
) -> None:
    """One request may be to blame: others still get there while it is asked for a token, once for
    all who doubt it."""
    async with (
        UpstreamServer().running() as server,
        running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running,
    ):
        server.answers["/v1/completions"] = [answer]
        there = running.one()
        looks = [running.fleet.doubt(there) for _ in range(3)]
        assert there.open
        assert [await each for each in looks] == 3 * [answer == COMPLETED]
        assert there.open == (answer == COMPLETED)
        if not there.open:
            await until(lambda: len(server.documents) == 3)  # it is asked again at once
            assert "a is closed: it has answered with status 500." in running.lines
        else:
            assert len(server.documents) == 2


@pytest.mark.parametrize(
    ("answers", "opens", "ends_well"),
    [
        ({"/v1/completions": [NEVER]}, False, False),
        ({"/v1/completions": [NEVER], "/metrics": [404]}, False, True),
        ({"/v1/completions": [NEVER], "/metrics": [404], "/v1/models": [NEVER]}, False, False),
        ({"/v1/completions": [429]}, True, True),
    ],
)
async def test_what_is_under_way_at_one_that_makes_no_token(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[str, list[str | int]],
    opens: bool,
    ends_well: bool,
) -> None:
    """It is given up where nothing is made, or nothing answers. A server without counts may be busy
    with it, as one is that does one request at a time; one that limits requests is well."""
    soon = aiohttp.ClientTimeout(total=0.1)
    monkeypatch.setattr("tpuflex.gateway.upstream_watch._DOUBTED_WITHIN", soon)
    monkeypatch.setattr("tpuflex.gateway.upstream_watch._WITHIN", soon)
    async with UpstreamServer().running() as server:
        server.answers["/metrics"] = answers.pop("/metrics", [metrics(tokens=1)])
        one = upstream(server, tmp_path)
        async with running_fleet(tmp_path, upstreams={"a": one}) as running:
            await running.clock.move(1)
            await until(lambda: "/metrics" in server.asked and running.clock.waiting == 1)
            running.clock.time += 5
            server.answers |= answers
            assert await running.fleet.doubt(running.one()) == ends_well
            assert running.one().open == opens


async def test_one_that_is_busy_is_not_doubted(tmp_path: Path) -> None:
    """It was seen to make tokens, which a token for the gateway would have to wait for; seconds
    later that says nothing any more."""
    async with (
        UpstreamServer().running() as server,
        running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running,
    ):
        server.answers["/metrics"] = [metrics(tokens=7), metrics(tokens=9)]
        for _ in range(2):
            await running.clock.move(1)
        await until(lambda: server.asked.count("/metrics") == 2 and running.clock.waiting == 1)
        server.answers["/v1/completions"] = [500]
        assert await running.fleet.doubt(running.one())
        await running.clock.move(1)
        running.clock.pass_by(5)
        assert not await running.fleet.doubt(running.one())


async def test_how_full_it_is(tmp_path: Path) -> None:
    """Each second it says so; the limit of requests in flight falls while some wait there."""
    async with UpstreamServer().running() as server:
        one = upstream(server, tmp_path, in_flight={"least": 4, "most": 64})
        async with running_fleet(tmp_path, upstreams={"a": one}) as running:
            there = running.one()
            there.limit.value = 40
            server.answers["/metrics"] = [metrics(kv_use=0.9, waiting=3)]
            await running.clock.move(1)
            await until_limit(there, 36)

            assert (there.kv_use, there.waiting) == (0.9, 3)
            assert there.refusal(Want(MODEL, "interactive", 0, 1), LIMITS, 2) is Reason.KV_CACHE


async def test_limits_that_are_learnt(tmp_path: Path) -> None:
    """Of a class that asks for it, they rise to 1.5 and 2 times the 95th percentile of what the
    upstream's own histogram has counted since the gateway began, while little was in flight."""

    def counted(below_2_5: int, all_of_them: int) -> str:
        counts = {"1.0": 0, "2.5": below_2_5, "5.0": all_of_them, "+Inf": all_of_them}
        name = 'vllm:time_to_first_token_seconds_bucket{engine="0",le="'
        return metrics() + "".join(f'{name}{le}"}} {count}.0\n' for le, count in counts.items())

    classes = {"slow": {"first_token": {"learn": True}}}
    async with (
        UpstreamServer().running() as server,
        running_fleet(
            tmp_path, upstreams={"a": upstream(server, tmp_path)}, classes=classes
        ) as running,
    ):
        there = running.one()
        looks = [counted(1000, 1000), counted(1090, 1100), counted(1090, 9000)]
        server.answers["/metrics"] = [looks[0], *looks[:2]]
        await running.until(lambda: there.first_token_p95 is not None)
        assert there.first_token_p95 == 3.75

        there.in_flight = there.limit.least + 1
        server.answers["/metrics"] = [looks[2]]
        asked = len(server.asked)
        await running.until(lambda: len(server.asked) > asked + 3)
        assert there.first_token_p95 == 3.75
        limits = FirstTokenLimits(1.5, 2.0, learn=True)
        assert there.breaker("slow", limits).limits == FirstTokenLimits(5.625, 7.5)
        assert there.breaker("interactive", LIMITS).limits == LIMITS


async def test_one_without_metrics(tmp_path: Path) -> None:
    """It is not asked for them again, and its limit moves all the same."""
    async with UpstreamServer().running() as server:
        del server.answers["/metrics"]
        async with running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running:
            there = running.one()
            await running.clock.move(1)
            there.limit.value = 40
            for _ in range(2):
                there.limit.first_token(running.clock.time, late=True)
            await running.clock.move(1)
            await until_limit(there, 36)

            assert server.asked.count("/metrics") == 1


async def test_one_that_is_gone_is_noticed_without_a_request(tmp_path: Path) -> None:
    """The question how full it is finds nobody."""
    async with (
        UpstreamServer().running() as server,
        running_fleet(tmp_path, upstreams={"a": upstream(server, tmp_path)}) as running,
    ):
        await server.stop()
        await running.clock.move(1)
        await until(lambda: not running.one().open)

        assert running.one().why.startswith("no connection to 127.0.0.1:")


async def test_models_and_pools(tmp_path: Path) -> None:
    """Without models in the settings, each is called as at its upstreams, which are one pool."""
    async with UpstreamServer().running() as server:
        one = upstream(server, tmp_path)
        several = {"a": one, "b": one, "c": {**one, "model": "other"}}
        async with running_fleet(tmp_path, upstreams=several) as running:
            assert running.fleet.models() == (MODEL, "other")
            assert [[each.name for each in pool] for pool in running.fleet.pools(MODEL)] == [
                ["a", "b"]
            ]
            assert list(running.fleet.pools("unknown")) == []

        models = {"fast": {"pools": [["a"], ["c", "b"]], "request_class": "batch"}}
        async with running_fleet(tmp_path, upstreams=several, models=models) as running:
            assert running.fleet.models() == ("fast",)
            assert running.fleet.request_class("fast") == "batch"
            assert [[each.name for each in pool] for pool in running.fleet.pools("fast")] == [
                ["a"],
                ["c", "b"],
            ]


#: Listens on a free port, which it prints; then prints what it is sent.
_LISTENER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
connection.settimeout(60)
print(connection.recv(1000))
"""


@needs_second_uid
async def test_another_users_process_gets_nothing(tmp_path: Path) -> None:
    """Where the upstream should listen, another user does: it is sent no byte, let alone the
    key."""
    with start_as_stranger(_LISTENER) as stranger:
        assert stranger.stdout is not None
        port = int(await asyncio.to_thread(stranger.stdout.readline))
        one = upstream(UpstreamServer(url=f"http://localhost:{port}/v1"), tmp_path)
        async with running_fleet(tmp_path, upstreams={"a": one}) as running:
            assert not running.one().open
            assert f"nothing was sent: port {port} is another user's" in running.lines[0]
            assert await asyncio.to_thread(stranger.stdout.read) == "b''\n"


async def test_another_certificate_gets_nothing(tmp_path: Path) -> None:
    """Of a server that is known by its certificate, no other one is sent anything."""
    pem, key = certificate()
    (tmp_path / "pem").write_text(pem + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    own = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()

    async with UpstreamServer(key="").running(context) as server:
        async with open_session(own) as session, session.get(f"{server.url}/models") as response:
            assert response.status == 200
        async with open_session("00" * 32) as session:
            with pytest.raises(aiohttp.ServerFingerprintMismatch):
                await session.get(f"{server.url}/models")

    assert server.asked == ["/v1/models"]


async def test_a_new_connection_that_cannot_be_made_leaves_none_open() -> None:
    """Those that were there before are closed: one of them has broken."""
    problems = list[str]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: problems.append(context["message"]))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with open_session() as session:
        async with session.get(url):
            pass
        server.close()
        NEW_CONNECTION.set(True)
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)
        gc.collect()
    assert problems == []
