"""Refusals that pass by themselves, because something was made or enabled a moment ago.

An engine that creates everything in one go outruns Google: a service account is known everywhere
about a minute after it was made ("Service account creation is eventually consistent … wait 60
seconds or more", https://cloud.google.com/iam/docs/service-accounts-create), and an API answers
one to five minutes after it was enabled (:mod:`tpuflex.gcp.enabling`).
"""

from __future__ import annotations

from tpuflex.errors import (
    AccessError,
    ApiError,
    QuotaError,
    ServiceDisabledError,
    TpuflexError,
)
from tpuflex.gcp.settling import SETTLED_AFTER
from tpuflex.provider.call import Call, UnreadyError, elapsed
from tpuflex.request.fields import RequestArgs
from tpuflex.request.model import Status
from tpuflex.request.name import RequestName
from tpuflex.request.snapshot import Snapshot

#: Seconds within which Google gets to know a new service account.
ACCOUNT_KNOWN_AFTER = 120.0
#: Between two attempts, in seconds.
PAUSE = 10.0
#: Refusals that a service account which is not known yet may meet: bad request, not found, no
#: permission, failed precondition.
_CODES = frozenset({3, 5, 7, 9})
_REASONS = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"})


class Patience:
    """How long the refusals of one create may last.

    Args:
        call: the engine call.
        args: the validated inputs.
        creating: whether the resource is being created. For one that exists nothing was made or
            enabled just now, and no refusal passes.
    """

    def __init__(self, call: Call, args: RequestArgs, *, creating: bool) -> None:
        self._call = call
        self._account = args.service_account if creating else None
        self._creating = creating
        self._began = call.timing.monotonic()

    def look(self, name: RequestName) -> Snapshot:
        """The request ``name`` and its nodes as they are now.

        Raises:
            AccessError, ApiError: it cannot be read; an API that is off, only after a while.
            InterruptedByUser: the engine cancelled.
        """
        while True:
            try:
                return self._call.look(name)
            except ServiceDisabledError as error:
                if not self.outlasts(error):
                    raise
            self._call.pause(PAUSE)

    def outlasts(self, error: TpuflexError, failure: Status | None = None) -> bool:
        """Whether the same request may soon succeed; says what is waited for.

        Args:
            error: what ended the attempt.
            failure: Google's status, where an operation or the request itself has failed.
        """
        age = self._call.timing.monotonic() - self._began
        if self._creating and isinstance(error, ServiceDisabledError):
            what, limit = "the TPU API does not answer yet", SETTLED_AFTER
        elif self._account and unknown_account(self._account, error, failure):
            what, limit = f"Google does not know {self._account} yet", ACCOUNT_KNOWN_AFTER
        else:
            return False
        if age + PAUSE > limit:
            return False
        self._call.report(
            f"{what}; asking again for {elapsed(limit)} ({elapsed(age)} so far)", passing=True
        )
        return True


def unknown_account(account: str, error: TpuflexError, failure: Status | None) -> bool:
    """Whether ``error`` is one that names ``account``, and that passes when Google knows it."""
    if isinstance(error, UnreadyError):
        failure = error.snapshot.failure
    if failure is not None:
        return failure.code in _CODES and account.lower() in failure.message.lower()
    if account.lower() not in error.message.lower():
        return False
    if isinstance(error, ApiError):
        return error.reason in _REASONS
    return isinstance(error, AccessError) and not isinstance(error, QuotaError)
