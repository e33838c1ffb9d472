"""P15: with `on_run_end: accept` the end of a run is the normal end for `tpuflex up`."""

from __future__ import annotations

import json
import re

import pytest

from embedded_cloud.services.tpu.records import Place
from tests.acceptance.killed import stack_run
from tests.acceptance.security.test_p4_two_clones import command, mutations
from tests.engine.embedded import Embedded
from tpuflex.cli.up.run import run_up
from tpuflex.queued_resource.outcomes import RUN_ACCEPTED

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

AFTER_THE_RUN = 4 * 3600 + 60.0


def test_up_after_the_run_succeeds_without_a_slice(
    embedded: Embedded, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tpuflex up` warns, says how another run is had, and exits with 0;
    nothing is requested, and there is no endpoint. The same once the leftover is gone."""
    file = embedded.root / "stacks" / "Pulumi.dev.yaml"
    text = file.read_text()
    assert "  max_run_duration: 4h" in text
    file.write_text(re.sub(r"( +)max_run_duration: 4h", r"\g<0>\n\1on_run_end: accept", text))
    stack = stack_run(embedded.root, embedded.engine, embedded.environ)
    stack.up()
    embedded.cloud.advance(AFTER_THE_RUN)
    before = mutations(embedded)

    capsys.readouterr()
    run_up(*command(embedded))
    first = capsys.readouterr()
    queue = embedded.cloud.cloud.tpu.queue
    (leftover,) = queue.in_place(Place("tpuflex-dev", "us-east5-a"))
    queue.lose(leftover)
    run_up(*command(embedded))
    second = capsys.readouterr()

    shown, again = json.loads(first.out), json.loads(second.out)
    assert (shown["endpoint"], shown["slice"]["lifecycle"]) == (None, "ended")
    assert (again["endpoint"], again["slice"]) == (None, None)
    for said, told in ((shown, first.err), (again, second.err)):
        assert said["run_over"] == RUN_ACCEPTED.text
        assert f"warning: {said['run_over']}.\n" in told
        assert "No changes" in told
    assert mutations(embedded) == before
    stack.destroy()
    assert embedded.remaining() == []
