"""`weights push --from-region`: what is refused before anything is made, and what is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.cli.test_down_purge import library_stack
from tests.cli.typing import TypeIn
from tests.copier.jobs import job_of
from tests.operate.marked_things import clients as apis_of
from tpuflex.boot.manifest import MANIFEST_NAME, WeightsFile, manifest
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.region_hub import HubRegionSource, hub_address
from tpuflex.cli.region_job import lists
from tpuflex.cli.region_machine import RegionMachine
from tpuflex.cli.region_place import PlaceSource
from tpuflex.cli.region_source import region_source
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.push_from_region import _require_free, run_stop
from tpuflex.copier.job import Job, JobFile
from tpuflex.errors import (
    AccessError,
    ApiError,
    ConflictError,
    IncompleteTeardownError,
    SettingsError,
)
from tpuflex.gcp.weights_objects import SetObjects
from tpuflex.operate.checkpoint_source import GsUrl
from tpuflex.operate.hub.snapshot import HubSource
from tpuflex.operate.region_copy.grants import IamResource
from tpuflex.planning.copy_machine import PRICES, estimate

SHA = "a" * 64
JOB = job_of(JobFile("a.safetensors", 4, SHA, ""), JobFile("config.json", 2, "", "1" * 40))


def write_source(project: Path, source: str) -> None:
    """Let the dev stack take its weights from ``source``."""
    file = project / "stacks" / "Pulumi.dev.yaml"
    file.write_text(re.sub(r"source: .*", f"source: {source}", file.read_text()))


@pytest.mark.parametrize(
    ("bucket", "words", "code", "said"),
    [
        ("gs://acme-models", ("--again",), 2, "replaces nothing in the library, or in a bucket of"),
        ("library", ("--again",), 2, "a machine replaces nothing in the library"),
    ],
)
def test_what_others_have_is_not_replaced(
    type_in: TypeIn, project: Path, bucket: str, words: tuple[str, ...], code: int, said: str
) -> None:
    """Refused before anything is made: everything anew in a home that outlives the stack."""
    write_source(project, "hf://acme/tiny@" + "0" * 40 + f"\n      bucket: {bucket}")
    typed = type_in("weights", "push", "-s", "dev", "--from-region", *words)
    assert typed.code == code
    assert said in typed.err
    assert not (project / ".tpuflex" / "emulator").exists()


@pytest.mark.parametrize(
    ("there", "others", "free"),
    [
        ({}, False, True),
        ({"config.json": 2, "a.safetensors": 4, "old.bin": 9}, False, True),
        ({"config.json": 3}, False, False),
        ({MANIFEST_NAME: 9}, False, False),
        ({"old.bin": 9}, True, True),
        ({"config.json": 2}, True, False),
    ],
)
def test_no_machine_is_made_for_what_it_could_not_replace(
    there: dict[str, int], others: bool, free: bool
) -> None:
    """Half of the same set is gone on with; a manifest, or a file of another size, is not its. In a
    bucket of the user's own neither is what no push has written."""
    objects = {path: SimpleNamespace(size=size, metadata=None) for path, size in there.items()}
    found = SetObjects(None, JOB.prefix, objects, None, others)
    weights = SimpleNamespace(contents=lambda _prefix: found)
    cloud = cast(Cloud, SimpleNamespace(weights=weights))
    if free:
        _require_free(cloud, JOB)
        return
    with pytest.raises(ConflictError, match="Nothing was made"):
        _require_free(cloud, JOB)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--from-region",), 5, "hf://OWNER/NAME@COMMIT or gs://BUCKET/PREFIX"),
        (("--from-region", "."), 2, "leave --from-region out"),
        (("--stop",), 2, "--stop goes with --from-region"),
    ],
)
def test_what_no_machine_can_do_is_refused(
    type_in: TypeIn, project: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """A source on this machine, a directory, and --stop alone; nothing is started for it."""
    write_source(project, "./model")
    typed = type_in("weights", "push", "-s", "dev", *words)
    assert typed.code == code
    assert said in typed.err
    assert not (project / ".tpuflex" / "emulator").exists()


def test_the_hub_and_buckets_are_sources() -> None:
    """Whatever else is named is refused with what to write."""
    assert region_source("hf://acme/tiny@main") == HubRegionSource(HubSource("acme/tiny", "main"))
    assert region_source("gs://acme/tiny") == PlaceSource(GsUrl("acme", "tiny"))
    for source in (None, "./model", "pypi://x==1/a.gguf"):
        with pytest.raises(SettingsError, match=r"weights\.source"):
            region_source(source)


def interrupted(stack: OpenStack) -> RegionMachine:
    """A machine at whose removal the user presses Ctrl-C, while its deletion is waited for."""

    def listed(*_words: object, **_query: object) -> dict[str, object]:
        raise KeyboardInterrupt

    cloud = Cloud(stack, {})
    compute: Any = SimpleNamespace(call=listed)
    vars(cloud)["apis"] = lambda: apis_of(compute=compute)
    return RegionMachine(cloud, lambda _line: None, frozenset())


@pytest.mark.parametrize("before", [None, ApiError("The Hub is gone."), KeyboardInterrupt()])
def test_ctrl_c_while_the_machine_is_removed(
    stack: OpenStack, before: BaseException | None
) -> None:
    """Whatever happened before, the exit code says that something may be left and billed; the error
    names it, and the command that removes it."""
    machine = interrupted(stack)

    def copy() -> None:
        with machine.told_if_left(), machine:
            machine.begin()
            if before is not None:
                raise before

    with pytest.raises(IncompleteTeardownError) as caught:
        copy()

    assert caught.value.exit_code == 10
    assert f"{machine.place.name}: its removal was broken off" in caught.value.message
    assert "To remove it: tpuflex weights push --from-region --stop" in caught.value.hint


def test_ctrl_c_while_it_is_stopped(stack: OpenStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--stop` that is interrupted does not end as if nothing were left, either."""
    machine = interrupted(stack)
    monkeypatch.setattr(
        "tpuflex.cli.steps.push_from_region.region_machine", lambda *_cloud: machine
    )

    with pytest.raises(IncompleteTeardownError, match="its removal was broken off"):
        run_stop(Invocation(environ={}), Cloud(stack, {}))


@pytest.mark.parametrize(
    ("address", "said"),
    [("https://me:word@hub.example", "a user in it"), ("http://127.0.0.1:1", "on this machine")],
)
def test_what_a_machine_may_not_be_told_is_refused(address: str, said: str) -> None:
    """The Hub's address stands in the machine's metadata: no password does, and none that only
    this machine reaches."""
    cloud = cast(Cloud, SimpleNamespace(environ={"HF_ENDPOINT": address}))
    with pytest.raises(SettingsError, match=said) as caught:
        hub_address(cloud)
    assert "word" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda job: job, True),
        (lambda job: replace(job, model="other"), False),
        (lambda job: replace(job, files=job.files[:1]), False),
        (lambda job: replace(job, files=(replace(job.files[0], size=5), job.files[1])), False),
        (
            lambda job: replace(job, files=(replace(job.files[0], sha256="b" * 64), job.files[1])),
            False,
        ),
        # Of a file in Git the Hub says no SHA-256.
        (
            lambda job: replace(job, files=(job.files[0], replace(job.files[1], git_id="2" * 40))),
            True,
        ),
    ],
)
def test_a_manifest_is_held_to_what_the_hub_lists(change: Callable[[Job], Job], same: bool) -> None:
    """Names, sizes, and the SHA-256 of what is in LFS."""
    files = (
        WeightsFile(path="a.safetensors", size=4, crc32c="AAAAAA==", sha256=SHA),
        WeightsFile(path="config.json", size=2, crc32c="AAAAAA==", sha256="c" * 64),
    )
    assert lists(manifest(files, model="m", revision="r"), change(JOB)) is same


def test_the_price_has_its_source_and_the_machine_an_end() -> None:
    """The estimate grows with the model, its most is what the bound allows, and no bound is longer
    than a day."""
    small, large, huge = estimate(10**6), estimate(62 * 10**9), estimate(10**14)
    assert small.limit_seconds == 1800
    assert (large.limit_seconds, large.expected_seconds) == (4900, 680)
    assert (str(large.expected_dollars), str(large.most_dollars)) == ("0.03", "0.20")
    assert huge.limit_seconds == 86_400
    assert all(price.source.where.startswith("https://cloud.google.com/") for price in PRICES)


def test_roles_of_somebody_elses_machine_are_left(
    stack: OpenStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that has proved that the machine is not its own takes nothing from it: it would be
    billed, and copy nothing."""
    taken: list[tuple[IamResource, ...]] = []

    def removed(_made: object, where: tuple[IamResource, ...], *_more: object) -> tuple[str, ...]:
        taken.append(where)
        return ()

    monkeypatch.setattr("tpuflex.cli.region_machine.remove_all", removed)
    for theirs in (True, False):
        machine = RegionMachine(library_stack(stack), lambda _line: None, frozenset())
        told: Any = SimpleNamespace(
            find=lambda: None,
            resources=lambda: ((), ("made by another state",)),
            is_foreign=lambda theirs=theirs: theirs,
        )
        machine.machine = told
        machine.remove()
        assert machine.problems == ("made by another state",)
    assert [len(where) for where in taken] == [0, 1]


@pytest.mark.parametrize(
    ("member", "left"),
    [
        ("serviceAccount:{account}", True),
        ("deleted:serviceAccount:{account}?uid=1", True),
        ("serviceAccount:somebody@else.iam.gserviceaccount.com", False),
        (None, False),
    ],
)
def test_roles_that_are_left_alone_are_found(
    stack: OpenStack, member: str | None, left: bool
) -> None:
    """Where a killed command has left the machine's roles in the library and nothing else, `down`
    finds these; what a stack's own bucket has goes with it."""
    for cloud, there in ((library_stack(stack), left), (Cloud(stack, {}), False)):
        policy: dict[str, object] = {}
        storage = SimpleNamespace(call=lambda *_words, _found=policy, **_query: _found)
        vars(cloud)["apis"] = lambda found=storage: apis_of(storage=found)
        machine = RegionMachine(cloud, lambda _line: None, frozenset())
        grant = machine.grant()
        condition = {"title": grant.title, "expression": grant.expression}
        if member is not None:
            who = member.format(account=machine.place.account)
            bindings = [
                {"role": role, "members": [who], "condition": condition} for role in grant.roles
            ]
            policy["bindings"] = bindings
        assert machine.granted() is there


class Untold:
    """A machine of which nothing is there, or nothing can be told."""

    def __init__(self, job: str = "", *, untold: bool = False) -> None:
        self.job, self.untold = job, untold

    def find(self) -> object:
        """The machine, with its job."""
        return SimpleNamespace(job=self.job) if self.job else None

    def resources(self) -> tuple[tuple[object, ...], tuple[str, ...]]:
        """What was made."""
        return (), ("service accounts: denied",) if self.untold else ()

    def is_foreign(self) -> bool:
        """Whose it is."""
        if self.untold:
            raise AccessError("serviceAccounts.get denied")
        return False


def removed_from(stack: OpenStack, machine: Untold, policy: object) -> tuple[list[str], list[str]]:
    """Calls that change a policy at a removal, and what is said; every policy read is ``policy``,
    or its refusal."""
    asked: list[str] = []
    said: list[str] = []

    def call(method: str, path: str, **_query: object) -> object:
        if method != "GET":
            asked.append(f"{method} {path}")
        if isinstance(policy, Exception):
            raise policy
        return policy

    api: Any = SimpleNamespace(call=call)
    cloud = Cloud(stack, {})
    vars(cloud)["apis"] = lambda: apis_of(storage=api, secretmanager=api)
    region = RegionMachine(cloud, said.append, frozenset())
    region.machine = cast(Any, machine)
    region.remove()
    return asked, [*region.problems, *said]


def member_policy(account: str) -> dict[str, object]:
    """A policy in which ``account`` has a role."""
    binding = {"role": "roles/x", "members": [f"serviceAccount:{account}"]}
    return {"etag": "e", "bindings": [binding]}


def test_nobody_is_locked_out_while_it_cannot_be_told_whose_the_account_is(
    stack: OpenStack,
) -> None:
    """Another home's machine may copy with it. What a machine that is proved ours names is taken
    away all the same."""
    account = RegionMachine(Cloud(stack, {}), print, frozenset()).place.account
    policy = member_policy(account)
    asked, told = removed_from(stack, Untold(untold=True), policy)
    assert asked == []
    assert any("serviceAccounts.get denied" in line for line in told)
    named = Untold(json.dumps({"bucket": "acme-models"}), untold=True)
    assert removed_from(stack, named, policy)[0] == ["PUT /storage/v1/b/acme-models/iam"]


def test_what_cannot_be_looked_at_is_not_left_of_a_copy_that_never_was(stack: OpenStack) -> None:
    """A caller without the right to read the policy is told so, and that is no failure."""
    denied = AccessError("getIamPolicy denied")
    asked, told = removed_from(stack, Untold(), denied)
    assert asked == []
    assert [line.partition(":")[0] for line in told] == ["Could not be looked at"]
    made = removed_from(stack, Untold(json.dumps({"bucket": "acme-models"})), denied)
    assert any(line.startswith("roles of") for line in made[1])
