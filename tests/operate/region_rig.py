"""A copy within the region on an embedded cloud whose machines run, with clients that lose answers
and end commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from embedded_cloud.cloud import project_number
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api
from tests.hub_models import MODEL, pauses, put_model
from tpuflex.copier.job import HubOrigin, Job, JobFile
from tpuflex.copier.report import Report
from tpuflex.gcp.listing import Apis, list_all
from tpuflex.gcp.ownership import Maker
from tpuflex.gcp.timing import Timing
from tpuflex.gcp.transport import Api as Client
from tpuflex.gcp.transport import JsonObject, Query
from tpuflex.gcp.weights import WeightsBucket, weights_bucket
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.operate.hub.client import HubClient
from tpuflex.operate.hub.snapshot import HubSource
from tpuflex.operate.region_copy.bodies import Place
from tpuflex.operate.region_copy.grants import Grant, bucket_grant
from tpuflex.operate.region_copy.machine import CopyMachine
from tpuflex.operate.region_copy.removal import remove_all
from tpuflex.operate.region_copy.run import CopyPlan, same_job, start, watch

NAMES = Names("shop", "dev", ENDPOINT_NAME)
STATE = "0123456789abcdef0123"
#: What of a job is the Hub's.
OF_ORIGIN = {"commit", "token_version"}
REGION, ZONES = "us-east5", ("us-east5-a", "us-east5-b")
BUCKET, PREFIX = "weights-of-tests", "models/tiny/r1"


class Killed(BaseException):
    """The command ends here, and nothing cleans up."""


class Counting:
    """A client that counts writes and does something at one of them.

    Args:
        inner: the client.
        at: called with the number of the write, and what makes it.
    """

    def __init__(
        self,
        inner: Client,
        at: Callable[[int, Callable[[], JsonObject]], JsonObject],
        seen: list[str],
    ) -> None:
        self._inner = inner
        self._at = at
        self._seen = seen

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: JsonObject | None = None,
        budget: float = 0.0,
    ) -> JsonObject:
        """As a transport."""
        del budget

        def forward() -> JsonObject:
            return self._inner.call(method, path, query=query, body=body, budget=0)

        if method == "GET":
            return forward()
        self._seen.append(f"{method} {path}")
        return self._at(len(self._seen) - 1, forward)


def quick() -> Timing:
    """Clocks that run, and pauses that are short."""

    def pause(seconds: float) -> bool:
        time.sleep(min(seconds, 0.05))
        return False

    return Timing(time.monotonic, time.time, pause, lambda: 0.5)


@dataclass(frozen=True)
class RegionRig:
    """An embedded cloud with a bucket and a model on its Hub.

    Attributes:
        cloud: the cloud.
        api: calls as its owner.
        apis: our own clients.
        create_only: whether nothing may be replaced.
        more: what the account is granted beside.
    """

    cloud: EmbeddedCloud
    api: Api
    apis: Apis
    create_only: bool = False
    more: tuple[Grant, ...] = ()

    def job(self, token: str = "", **changes: Any) -> Job:
        """What is to be copied."""
        origin = {key: changes.pop(key) for key in OF_ORIGIN & changes.keys()}
        hub = f"{self.cloud.url}/huggingface"
        snapshot = HubClient(hub, lambda: token, pauses([])).snapshot(HubSource(MODEL, ""))
        files = tuple(JobFile(f.path, f.size, f.sha256, f.git_id) for f in snapshot.files)
        job = Job(
            origin=replace(HubOrigin(hub, snapshot.repository, snapshot.commit), **origin),
            files=files,
            bucket=BUCKET,
            prefix=PREFIX,
            model="tiny",
            revision="r1",
            source=snapshot.source,
            pinned="",
            known=(),
            again=False,
            storage=self.cloud.url,
            secretmanager=self.cloud.url,
            create_only=self.create_only,
        )
        return replace(job, **changes)

    @property
    def place(self) -> Place:
        """Whose machine it is."""
        return Place(NAMES, PROJECT, REGION, STATE)

    @property
    def maker(self) -> Maker:
        """By which marks it is ours."""
        return Maker(NAMES, PROJECT, project_number(PROJECT), frozenset({STATE}))

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What the account is granted."""
        return (bucket_grant(BUCKET, PREFIX, create_only=self.create_only), *self.more)

    def machine(self, apis: Apis | None = None) -> CopyMachine:
        """The machine, by other clients perhaps."""
        return CopyMachine(self.place, self.maker, apis or self.apis, quick())

    def copy(self, apis: Apis | None = None, job: Job | None = None) -> Report:
        """What the command does: find or make the machine, wait, remove everything."""
        apis, job = apis or self.apis, job or self.job()
        machine = self.machine(apis)
        running = machine.find()
        if running is None:
            plan = CopyPlan(self.place, job, ZONES, 1800, self.grants)
            running = start(plan, machine, apis, quick(), lambda _line: None)
        else:
            same_job(running, job)
        report = watch(running, job, machine, quick(), lambda _done, _total: None)
        assert self.remove(apis) == ()
        return report

    def remove(self, apis: Apis | None = None) -> tuple[str, ...]:
        """Remove everything."""
        apis = apis or self.apis
        found, unseen = self.machine(apis).resources()
        return unseen + remove_all(
            found,
            (grant.resource for grant in self.grants),
            self.place.account,
            self.maker,
            apis,
            quick(),
            lambda _line: None,
        )

    def at_writes(
        self, at: Callable[[int, Callable[[], JsonObject]], JsonObject]
    ) -> tuple[Apis, list[str]]:
        """Clients that do something at each write, and the writes that were made."""
        seen: list[str] = []
        clients = {
            field.name: Counting(getattr(self.apis, field.name), at, seen) for field in fields(Apis)
        }
        return Apis(**clients), seen

    def left(self) -> list[str]:
        """What exists of the copy, beside the weights."""
        listed = list_all(self.apis, PROJECT, ZONES).resources
        policy = self.api.call("GET", f"storage/v1/b/{BUCKET}/iam").json()
        members = [m for b in policy.get("bindings", []) for m in b["members"] if "copy" in m]
        return [each.title for each in listed if each.marker.owner == NAMES.owner] + members

    @property
    def bucket(self) -> WeightsBucket:
        """The bucket, as a command reads it."""
        environ = dict(self.cloud.environ())
        return weights_bucket(BUCKET, project=PROJECT, environ=environ)


def lost(number: int) -> Callable[[int, Callable[[], JsonObject]], JsonObject]:
    """The answer to this write is lost, and the client asks again, as a transport does."""

    def at(place: int, forward: Callable[[], JsonObject]) -> JsonObject:
        answer = forward()
        return forward() if place == number else answer

    return at


def killed(number: int, *, before: bool) -> Callable[[int, Callable[[], JsonObject]], JsonObject]:
    """The command is killed at this write, before or after it."""

    def at(place: int, forward: Callable[[], JsonObject]) -> JsonObject:
        if place == number and before:
            raise Killed
        answer = forward()
        if place == number:
            raise Killed
        return answer

    return at


@contextmanager
def region_rig(tmp_path: Path, **settings: Any) -> Iterator[RegionRig]:
    """An embedded cloud whose machines run."""
    from tests.security.forged import client_of

    state = tmp_path / "emulator"
    with EmbeddedCloud(state, token=TOKEN, launch_hosts=True, **settings) as cloud:
        put_model(cloud.state_dir)
        api = Api(cloud.url)
        body = {"name": BUCKET, "location": "US-EAST5"}
        assert api.call("POST", "storage/v1/b", body=body, project=PROJECT).status_code == 200
        yield RegionRig(cloud, api, client_of(cloud.url))
