"""The section ``tpuflex:identity``: the service account of the hosts, and who grants it what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.settings.base import Frozen, refusal

#: https://cloud.google.com/iam/docs/service-accounts-create
_ACCOUNT = re.compile(
    r"(?!service-\d+@)[a-z](?:[-a-z0-9]{4,28}[a-z0-9])@"
    rf"(?P<project>{PROJECT_PATTERN})\.iam\.gserviceaccount\.com"
)
#: https://cloud.google.com/iam/docs/service-account-types
_GOOGLES = re.compile(
    r"\d+-compute@developer\.gserviceaccount\.com|[^@]+@appspot\.gserviceaccount\.com"
    r"|[^@]+@(?:[a-z0-9-]+\.)?(?:iam|cloudservices)\.gserviceaccount\.com"
)
_WRITE = "Write NAME@PROJECT.iam.gserviceaccount.com of one that somebody made for such hosts."


def check_account(email: str) -> str:
    """``email`` if it is that of a service account that a user has made."""
    if _ACCOUNT.fullmatch(email):
        return email
    if _GOOGLES.fullmatch(email):
        raise refusal(
            f"{email} is an account of Google's own making: the whole project shares it, or a"
            " service acts by it",
            _WRITE,
        )
    raise refusal(f"{email!r} is no email of a service account", _WRITE)


@dataclass(frozen=True, slots=True)
class ExistingAccount:
    """A service account that was there before the endpoint, and stays.

    Attributes:
        project: the project that has it.
        email: its address.
    """

    project: str
    email: str

    @property
    def path(self) -> str:
        """Its resource name, ``projects/P/serviceAccounts/EMAIL``."""
        return f"projects/{self.project}/serviceAccounts/{self.email}"

    @property
    def member(self) -> str:
        """It as an IAM policy spells it."""
        return f"serviceAccount:{self.email}"


class IdentitySettings(Frozen):
    """Which service account the hosts run as, and who grants it what they need."""

    service_account: Annotated[str, AfterValidator(check_account)] | None = None
    """A service account of yours for the hosts, which is there already:
    `NAME@PROJECT.iam.gserviceaccount.com`. It is neither changed nor deleted, and no role on the
    project is granted to it. Without it, the endpoint gets an account of its own."""

    manage_grants: bool = True
    """Whether an account of yours is granted the roles that the hosts need on the stack's bucket
    and secrets, and on a library's weights. With false, others grant them."""

    @property
    def existing(self) -> ExistingAccount | None:
        """The account that is there already; None for one of the endpoint's own."""
        match = _ACCOUNT.fullmatch(self.service_account or "")
        return ExistingAccount(match["project"], match[0]) if match else None
