"""The error of a race that no zone can win any more: with every zone's reason."""

from __future__ import annotations

from tpuflex.errors import AccessError, ApiError, QuotaError, TpuflexError
from tpuflex.provider.call import UnreadyError
from tpuflex.provider.contest import Field


def without_hope(field: Field) -> TpuflexError | None:
    """What the race ends with, as none of the zones can deliver; None while some still may.

    An :class:`UnreadyError` if anything is left that the state must keep.
    """
    if any(e.live or e.fresh or (e.removal and not e.note) for e in field.entrants):
        return None
    errors = [e.error for e in field.entrants if e.error is not None]
    if field.single:
        return _of_one(field, errors[0])
    lines = "\n".join(f"  {e.outcome()}: {e.error.message}" for e in field.entrants if e.error)
    message = f"no zone can take {field.args.accelerator_type}:\n{lines}"
    hint = "\n".join(dict.fromkeys(error.hint for error in errors if error.hint))
    if field.remains():
        last = next((e for e in reversed(field.entrants) if e.exists and e.error), None)
        return field.kept(message, hint, last)
    kinds = {type(error) for error in errors}
    kind = next((k for k in (QuotaError, AccessError) if kinds == {k}), ApiError)
    return kind(message, hint=hint)


def _of_one(field: Field, error: TpuflexError) -> TpuflexError:
    if not isinstance(error, UnreadyError) and not field.remains():
        return error
    kept = field.kept(error.message, error.hint)
    kept.__cause__ = error
    return kept
