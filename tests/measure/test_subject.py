"""What is known of a stack's server beforehand, and what its figures are held against."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.samples import status
from tests.engine.embedded import ROOT
from tests.measure.fake_server import KEY, FakeServer
from tpuflex.errors import NotFoundError, UsageError
from tpuflex.host.report import HostReport, KvCacheReport
from tpuflex.measure.bench import Order, bench_here
from tpuflex.measure.grid import Grid
from tpuflex.measure.subject import Subject, subject_at, subject_of
from tpuflex.project import open_project
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import agree
from tpuflex.stack.stack import read_stack

SERVES = HostReport(
    "READY",
    kv_cache=KvCacheReport(block_size=32, num_blocks=5000, cache_dtype="fp8", tokens=160_000),
    vllm_version="0.20.2",
)


def subject(stack: str, **changes: object) -> Subject:
    """The server of a stack of this checkout, as its host reports it."""
    opened = read_stack(open_project(ROOT, {}), stack, deploying=False)
    return subject_of(Connection(opened, {}), status(**{"host": SERVES, **changes}))


def test_a_server_on_chips_has_ceilings_and_a_price() -> None:
    """The price is that of the zone in which the slice is, and says where it was read."""
    found = subject("gemma-4-31b-v6e-4-bf16", zone="us-east5-a")

    server = found.server
    assert (server.accelerator, server.chips, server.zone) == ("v6e-4", 4, "us-east5-a")
    assert (server.kv_tokens, server.block_size, server.vllm) == (160_000, 32, "0.20.2")
    assert server.max_model_len is not None
    assert server.usd_per_hour == Decimal("5.40")
    assert server.price_source.startswith("4 chips at $1.35 in us-east5 (")
    assert "--max-model-len" in server.args
    loads = Grid(points=((8, 128),)).loads(1)
    ceilings = found.chips.ceilings(loads[0])
    assert None not in (ceilings.prompt_per_second, ceilings.output_per_second)
    assert (found.least_seconds(loads) or 0) > 0


def test_a_server_on_the_embedded_cloud_has_neither() -> None:
    """It computes on this machine's CPU, whatever chips its stack asks for, and costs nothing."""
    found = subject("dev")

    assert (found.server.accelerator, found.server.usd_per_hour) == ("", None)
    assert found.server.max_model_len == 512
    assert found.server.max_num_seqs == 8
    assert found.least_seconds(Grid(points=((8, 128),)).loads(1)) is None


def test_other_settings_are_another_subject() -> None:
    """By the hash of the stack's settings."""
    assert subject("dev").stack_hash == subject("dev").stack_hash
    assert subject("dev").stack_hash != subject("demo").stack_hash


def test_a_stack_that_does_not_serve_is_not_measured() -> None:
    """What to do about it is said."""
    with pytest.raises(NotFoundError, match="serves nothing"):
        subject("dev", lifecycle=Lifecycle.WAITING, state="WAITING_FOR_RESOURCES")


def test_a_server_of_many_models_fits_into_an_error() -> None:
    """Each name is one line, cut short, and there are five of them."""
    fake = FakeServer()
    names = [f"{number}\n{'x' * 900}" for number in range(100)]
    fake.documents["/v1/models"] = [json.dumps({"data": [{"id": name} for name in names]})]
    with fake.running() as server, pytest.raises(UsageError) as refused:
        subject_at(server.endpoint, model="", key=KEY, ca=None)

    assert "and 95 more" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("url", ["ftp://h", "http://user:hunter2@h:1", "http://h/v1?key=hunter2"])
def test_a_url_that_may_hold_a_secret_is_refused_before_anything_is_asked(url: str) -> None:
    """The error does not repeat it."""
    with pytest.raises(UsageError) as refused:
        subject_at(url, model="", key=KEY, ca=None)

    assert "hunter2" not in str(refused.value)


def test_no_server_chooses_which_tokenizer_is_loaded(tmp_path: Path) -> None:
    """A name that the catalog lacks may be any repository of the Hub, or a directory here."""
    fake = FakeServer()
    fake.documents["/v1/models"] = [json.dumps({"data": [{"id": "odd/model"}]})]
    with fake.running() as server, pytest.raises(UsageError, match="where its tokenizer is"):
        bench_here(server.endpoint, Order(tmp_path / "r.jsonl", Grid()), consent=agree, key=KEY)
