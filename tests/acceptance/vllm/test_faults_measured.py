"""The real load generator, put on a server that fails as vLLM cannot be made to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.measure.faulty_server import MODEL, Fault, FaultyServer, faulty_server
from tests.measure.test_faults import KINDS, LOAD
from tests.security.vllm_host import image_is_installed, smollm2_directory, vllm_python
from tpuflex.measure.bench import evidence
from tpuflex.measure.judgement import Chips, judged
from tpuflex.measure.load import Generator, here

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyServer]:
    """A server that can be told how to fail."""
    with faulty_server() as running:
        yield running


@pytest.fixture(scope="module")
def generator(server: FaultyServer) -> Iterator[Generator]:
    """`vllm bench serve` of the embedded cloud's image, put on it."""
    tokenizer, python = str(smollm2_directory()), str(vllm_python())
    with here(server.url, MODEL, tokenizer=tokenizer, python=python) as running:
        yield running


@pytest.mark.parametrize("fault", ["none", *KINDS])
def test_each_fault_is_counted_as_what_it_is(
    server: FaultyServer, generator: Generator, fault: Fault
) -> None:
    """What comes of every sixteenth request is no latency, and has a kind of its own."""
    server.fault = fault
    point = judged(LOAD, evidence(generator.drive(LOAD)), Chips())

    assert point.measured is not None
    assert point.measured.failures == ({} if fault == "none" else {KINDS[fault]: 2})
