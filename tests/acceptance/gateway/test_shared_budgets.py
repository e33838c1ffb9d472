"""Several gateways count in one Redis: a real one, which is killed, stopped and started again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.gateway import spender
from tpuflex.errors import UnauthenticatedError
from tpuflex.gateway.budgets import open_budgets
from tpuflex.gateway.clients import Client
from tpuflex.gateway.door import RejectedError
from tpuflex.settings.gateway import BudgetStore, ClientLimits

REDIS = shutil.which("redis-server") or shutil.which("valkey-server")
pytestmark = pytest.mark.skipif(
    REDIS is None, reason="there is no redis-server: `apt-get install redis-server`"
)
PASSWORD = "correct-horse-battery"


@dataclass
class Redis:
    """A Redis of this test's own, with a password.

    Attributes:
        directory: has its configuration and the password's file.
        port: where it listens, on loopback.
    """

    directory: Path
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def store(self) -> BudgetStore:
        return BudgetStore(url=f"valkey://127.0.0.1:{self.port}/3", password_file="password")

    def start(self) -> None:
        assert REDIS is not None
        self.process = subprocess.Popen(
            [REDIS, self.directory / "redis.conf"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Ready to accept connections" in line:
                return
        raise AssertionError("it has not started")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def signal(self, which: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(which)


@pytest.fixture
def redis(tmp_path: Path, unused_tcp_port: int) -> Iterator[Redis]:
    for name, text in (
        ("password", f"{PASSWORD}\n"),
        (
            "redis.conf",
            f'bind 127.0.0.1\nport {unused_tcp_port}\nsave ""\ndir {tmp_path}\n'
            f"requirepass {PASSWORD}\n",
        ),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    server = Redis(tmp_path, unused_tcp_port)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def client(tokens: int) -> Client:
    return Client("somebody", "batch", None, ClientLimits(tokens_per_day=tokens))


def test_two_gateways_one_killed_never_spend_more_than_there_is(redis: Redis) -> None:
    """What the killed one had reserved stays counted; all the rest is spent."""
    most = 50_000
    command = [sys.executable, spender.__file__]
    arguments = [redis.store.url, str(redis.directory / "password"), str(most)]
    killed, other = spenders = [
        subprocess.Popen(
            [*command, *arguments, seed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for seed in "12"
    ]
    try:
        for each in spenders:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in spenders:
            assert each.stdin is not None
            print(file=each.stdin, flush=True)
        assert killed.stdout is not None
        before = [int(killed.stdout.readline()) for _ in range(100)]
        killed.kill()
        after, _ = killed.communicate()
        rest, _ = other.communicate(timeout=120)
    finally:
        for each in spenders:
            each.kill()
    spent = sum(before) + sum(map(int, after.split())) + sum(map(int, rest.split()))

    assert other.returncode == 0
    assert len(rest.split()) > 200
    assert most - spender.AT_ONCE * spender.MOST <= spent <= most


async def test_a_redis_that_goes_lets_nothing_through_until_it_is_back(redis: Redis) -> None:
    who, lines = client(100), list[str]()
    async with open_budgets(redis.store, redis.directory, lines.append) as budgets:
        held = await budgets.reserve(who, 60, 0)
        redis.kill()
        for _ in range(3):
            with pytest.raises(RejectedError) as caught:
                await budgets.reserve(who, 1, 0)
            assert (caught.value.status, caught.value.reason) == (503, "budgets_unreachable")
        await held.settle(0, 0)
        redis.start()
        for _ in range(3):
            await budgets.reserve(who, 1, 0)
    lost, found = lines
    assert lost.startswith("What clients use cannot be counted: Connection closed ")
    assert found == "What clients use is counted again."
    assert PASSWORD not in lost


async def test_a_redis_that_is_silent_is_given_up_soon_and_is_sent_nothing_twice(
    redis: Redis,
) -> None:
    who = client(100)
    async with open_budgets(redis.store, redis.directory) as budgets:
        held = await budgets.reserve(who, 100, 0)
        redis.signal(signal.SIGSTOP)
        began = time.monotonic()
        await held.settle(60, 0)
        with pytest.raises(RejectedError) as caught:
            await budgets.reserve(who, 1, 0)
        assert caught.value.status == 503
        assert time.monotonic() - began < 5
        redis.signal(signal.SIGCONT)
        # What it got while it was silent it does, and once.
        await budgets.reserve(who, 40, 0)
        with pytest.raises(RejectedError, match="too little"):
            await budgets.reserve(who, 1, 0)


@pytest.mark.parametrize("password", [None, "wrong-horse-battery"])
async def test_a_password_that_is_refused_is_said_without_it(
    redis: Redis, password: str | None
) -> None:
    store = redis.store.model_copy(update={"password_file": password and "wrong"})
    (redis.directory / "wrong").write_text(f"{password}")
    (redis.directory / "wrong").chmod(0o600)

    with pytest.raises(UnauthenticatedError, match=r"valkey://.* refuses the gateway") as caught:
        async with open_budgets(store, redis.directory):
            pass
    said = f"{caught.value} {caught.value.__cause__!r} {caught.value.__cause__}"
    assert "horse" not in said
    assert "password_file" in said
