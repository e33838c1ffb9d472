"""What Pulumi's SDK says past the command line."""

from __future__ import annotations

import warnings

from tpuflex.engine.commands import ignore_broken_stream


def test_a_broken_event_stream_is_not_warned_of() -> None:
    """An engineer on call: after a `kill -9` of the engine, a raw `_stack.py:1707: UserWarning` was
    on the terminal, above our own error. Other warnings stay."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        ignore_broken_stream()
        for text in (
            "Error in event stream: <_Rendezvous>",
            "Failed to parse engine event\n{",
        ):
            warnings.warn_explicit(text, UserWarning, "_stack.py", 1707, "pulumi.automation._stack")
        warnings.warn_explicit("other", UserWarning, "_stack.py", 1, "pulumi.automation._stack")

    assert [str(each.message) for each in shown] == ["other"]
