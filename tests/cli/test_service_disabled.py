"""Every way to an API that was enabled a moment ago: each waits for it, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from google.api_core.exceptions import Forbidden

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.json_types import JsonObject, JsonValue
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api
from tests.loopback import overrides
from tests.provider.fakes import FakeTime
from tpuflex.deploy.engine_work import retry_while_settling
from tpuflex.engine.events import Note
from tpuflex.engine.failure import failure
from tpuflex.errors import AccessError, ServiceDisabledError
from tpuflex.google.apis import Apis
from tpuflex.google.required_apis import APIS, BOOTSTRAP_APIS, Question
from tpuflex.google.storage_client import storage_bucket
from tpuflex.google.timing import SETTLED_AFTER, Settling
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack

Way = Callable[[Connection], None]
PROJECT = "tpuflex-dev"
#: What an API of Google's says, through the gcp plugin.
PLUGINS_WORDS = (
    "googleapi: Error 403: Compute Engine API has not been used in project 1 before or it is"
    " disabled. Enable it by visiting https://console.developers.google.com/… then retry.,"
    " accessNotConfigured"
)
#: Asked in the project of the credential, whose APIs the embedded cloud does not know.
CHARGED_ELSEWHERE = {"serviceusage"}
QUESTIONS: dict[str, Question] = {
    api.question.client: api.question for api in (*APIS, *BOOTSTRAP_APIS) if api.question
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def time(clock: ManualClock) -> FakeTime:
    """The machine's time, which passes with the cloud's."""
    passing = FakeTime()
    alone = passing.pause

    def pause(seconds: float) -> bool:
        clock.advance(seconds)
        return alone(seconds)

    passing.pause = pause  # type: ignore[method-assign]
    return passing


@pytest.fixture
def running(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCloud]:
    """A cloud where every API was enabled a moment ago, and answers after a minute."""
    strictness: JsonObject = {"apis": {"enforced": True, "bare_projects": True}}
    with EmbeddedCloud(
        tmp_path / "emulator", token=TOKEN, clock=clock, strictness=strictness
    ) as cloud:
        services: list[JsonValue] = [api.service for api in (*APIS, *BOOTSTRAP_APIS)]
        path = f"v1/projects/{PROJECT}/services:batchEnable"
        assert Api(cloud.url).call("POST", path, body={"serviceIds": services}).ok
        made = Api(cloud.url).call(
            "POST", f"storage/v1/b?project={PROJECT}", body={"name": "bucket-1"}
        )
        assert made.ok, made.text
        cloud.cloud.strictness.change({"apis": {"answers_after_s": 60}})
        yield cloud


@pytest.fixture
def cloud(running: EmbeddedCloud, stack: Stack, time: FakeTime) -> Connection:
    """What a command has of it."""
    environ = {
        **overrides(running.url),
        "STORAGE_EMULATOR_HOST": running.url,
        "GOOGLE_OAUTH_ACCESS_TOKEN": TOKEN,
    }
    found = Connection(stack, environ)
    found.__dict__["timing"] = time.timing()
    return found


def ask(client: str) -> Way:
    """By a client of our own."""

    def way(cloud: Connection) -> None:
        question = QUESTIONS[client]
        query = {key: text.format(project=PROJECT) for key, text in question.query}
        path = question.path.format(project=PROJECT)
        getattr(cloud.apis(), client).call("GET", path, query=query, budget=0)

    return way


def look_into_bucket(cloud: Connection) -> None:
    """By Google's library, as weights are pushed."""
    bucket = storage_bucket(
        "bucket-1",
        project=PROJECT,
        environ=cloud.environ,
        settling=cloud.settling,
        timing=cloud.timing,
    )
    try:
        bucket.exists()
    except Forbidden as error:
        raise ServiceDisabledError(str(error)) from error


def run_engine(cloud: Connection) -> None:
    """By the gcp plugin, whose words the engine hands on."""

    def run() -> None:
        try:
            ask("compute")(Connection(cloud.stack, cloud.environ))
        except ServiceDisabledError:
            raise failure("up", [Note("error", PLUGINS_WORDS, "vllm-network")], "") from None

    retry_while_settling(run, cloud.settling, cloud.timing, lambda _line: None)


#: Every way by which a command reaches an API. The provider's own: tests/provider/test_patience.py;
#: the hosts': tests/startup.
WAYS: dict[str, Way] = {
    **{client: ask(client) for client in sorted({*QUESTIONS} - CHARGED_ELSEWHERE)},
    "storage library": look_into_bucket,
    "engine": run_engine,
}


def test_every_client_is_in_the_table() -> None:
    """A client without a row here could be one that does not wait."""
    assert {each.name for each in fields(Apis)} - CHARGED_ELSEWHERE <= set(WAYS)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_api_that_was_enabled_a_moment_ago_is_waited_for(
    cloud: Connection, time: FakeTime, way: Way
) -> None:
    """Once a command has enabled APIs, each is asked again until it answers."""
    cloud.settling.begin(time.now)

    way(cloud)

    assert 1060 <= time.now < 1100


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_wait_is_bounded(
    cloud: Connection, running: EmbeddedCloud, time: FakeTime, way: Way
) -> None:
    """An API that does not answer within five minutes has refused, with exit code 6."""
    running.cloud.strictness.change({"apis": {"answers_after_s": 9999}})
    cloud.settling.begin(time.now)

    with pytest.raises(ServiceDisabledError) as refused:
        way(cloud)

    assert 1000 + SETTLED_AFTER - 31 <= time.now <= 1000 + SETTLED_AFTER
    assert refused.value.exit_code == 6


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_nothing_is_waited_for_where_nobody_enabled_anything(
    cloud: Connection, time: FakeTime, way: Way
) -> None:
    """Then the refusal is final, and comes at once."""
    with pytest.raises(ServiceDisabledError):
        way(cloud)

    assert time.pauses == []


def test_another_failure_of_the_engine_is_final(time: FakeTime) -> None:
    """One refusal beside it that no wait can change is enough."""
    settling = Settling(time.now + SETTLED_AFTER)
    denied = "googleapi: Error 403: Permission 'iam.roles.get' denied"
    notes = [Note("error", text, "n") for text in (PLUGINS_WORDS, denied)]

    def run() -> None:
        raise failure("up", notes, "")

    with pytest.raises(AccessError):
        retry_while_settling(run, settling, time.timing(), lambda _line: None)

    assert time.pauses == []
