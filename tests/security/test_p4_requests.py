"""P4: a request for a slice is ours by four marks together, or because the state remembers it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.provider.fakes import (
    INPUTS,
    NAME,
    Answer,
    Cloud,
    Sent,
    args,
    missing,
    node,
    queued,
    scripted,
    sequence,
)
from tpuflex.errors import AlreadyExistsError, ConflictError
from tpuflex.naming import LABEL_STATE, Names
from tpuflex.provider.operations import create, delete_resource, update
from tpuflex.provider.read import read
from tpuflex.queued_resource.fields import RequestArgs

OURS, THEIRS = "0123456789abcdef0123", "fedcba98765432100000"
NAMES = Names("shop", "dev", "chat")
CREATED = "2026-11-21T08:00:00.123456789Z"
RECORDED: dict[str, Any] = {"createTime": CREATED, "requests": [NAME], "lifecycle": "active"}
LATER: dict[str, Any] = {**RECORDED, "createTime": "2026-11-20T08:00:00Z"}


def inputs(state_id: str) -> dict[str, Any]:
    return {**INPUTS, "labels": NAMES.labels(state_id)}


def asked(state_id: str) -> RequestArgs:
    return args(**inputs(state_id))


def cloud(state: str, spec: str, on_node: str | None = None, **more: Any) -> Cloud:
    """A request that was made with the state id ``spec``, on whose node another may be now."""
    there = asked(spec if on_node is None else on_node)
    has_node = state == "ACTIVE"
    return Cloud(
        request=sequence(queued(state, asked(spec)) | {"createTime": CREATED}),
        node=sequence(node(of=there)) if has_node else sequence(missing()),
        **more,
    )


def mutations(script: Any) -> list[str]:
    return [sent.method for sent in script.sent if sent.method != "GET"]


def until_deleted(script: Any, there: Cloud) -> None:
    """Let what is ``there`` be gone as soon as its deletion was asked for."""
    answer = there.__call__

    def handler(sent: Sent) -> Answer:
        looked = sent.method == "GET" and "operations" not in sent.path
        return missing() if looked and mutations(script) else answer(sent)

    script.handler = handler


@pytest.mark.parametrize("state", ["WAITING_FOR_RESOURCES", "ACTIVE", "FAILED", "SUSPENDED"])
@pytest.mark.parametrize("theirs", [THEIRS, ""])
def test_what_another_state_made_is_neither_adopted_nor_cleared(state: str, theirs: str) -> None:
    """S5: a colleague's clone has the same names and the same owner marker, and another state."""
    call, script, _ = scripted(cloud(state, theirs))

    with pytest.raises(AlreadyExistsError, match="stack dev of project shop") as refused:
        create(call, inputs(OURS), timeout=60)

    assert mutations(script) == []
    assert (theirs or "no state ID") in refused.value.message
    assert "docs working-together" in str(refused.value.hint)
    assert "recover --take-over" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("mine", "theirs"), [(OURS, THEIRS), ("", THEIRS)], ids=["another id", "an id where none was"]
)
def test_what_another_state_made_is_neither_changed_nor_deleted(mine: str, theirs: str) -> None:
    """S5: not even what has our name, if the state remembers another request of that name."""
    call, script, _ = scripted(cloud("ACTIVE", theirs))

    with pytest.raises(AlreadyExistsError):
        update(call, NAME, inputs(mine), inputs(mine), LATER, timeout=60)
    delete_resource(call, NAME, inputs(mine), LATER, timeout=60)

    assert mutations(script) == []


def test_the_id_of_another_state_counts_more_than_the_time() -> None:
    """S5: somebody else has taken it over: then it is theirs, whatever our state remembers."""
    call, script, _ = scripted(cloud("ACTIVE", THEIRS))

    with pytest.raises(ConflictError, match=f"state ID {THEIRS}"):
        delete_resource(call, NAME, inputs(OURS), RECORDED, timeout=60)

    assert mutations(script) == []


@pytest.mark.parametrize("recorded", [{"requests": [NAME]}, RECORDED])
def test_what_has_no_state_id_is_not_a_states(recorded: dict[str, Any]) -> None:
    """S5: whatever the state remembers."""
    call, script, _ = scripted(cloud("ACTIVE", ""))

    with pytest.raises(AlreadyExistsError):
        update(call, NAME, inputs(OURS), inputs(OURS), recorded, timeout=60)

    assert mutations(script) == []


def test_what_waits_has_the_id_from_the_start() -> None:
    """No change is planned for it."""
    call, _, _ = scripted(cloud("WAITING_FOR_RESOURCES", OURS))

    found = read(call, NAME, inputs(OURS), RECORDED)

    assert found is not None
    assert found.inputs["labels"] == NAMES.labels(OURS)


def _create(call: Any) -> None:
    create(call, inputs(OURS), timeout=60)


def _delete(call: Any) -> None:
    delete_resource(call, NAME, inputs(OURS), LATER, timeout=60)


@pytest.mark.parametrize("act", [_create, _delete])
@pytest.mark.parametrize(
    "forged",
    [
        {**NAMES.labels(OURS), "tpuflex-owner": Names("shop", "prod", "chat").owner},
        {**NAMES.labels(OURS), "tpuflex-project": "other"},
        {**NAMES.labels(OURS), LABEL_STATE: THEIRS},
        NAMES.labels(),
    ],
    ids=["owner", "project", "state", "no state"],
)
def test_no_mark_alone_makes_it_ours(act: Callable[[Any], None], forged: dict[str, str]) -> None:
    """S5: owner, project and state id must all agree, under a name of ours."""
    spec = args(**{**INPUTS, "labels": forged})
    call, script, _ = scripted(
        Cloud(
            request=sequence(queued("ACTIVE", spec) | {"createTime": CREATED}),
            node=sequence(node(of=spec)),
        )
    )

    with contextlib.suppress(AlreadyExistsError):
        act(call)

    assert mutations(script) == []
