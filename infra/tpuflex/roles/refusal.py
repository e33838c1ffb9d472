"""What to do about a refusal of Google, by its text: the billing account that is missing, or the
roles that hold the permissions that it names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tpuflex.gcloud_commands import grant, grant_on_bucket
from tpuflex.queued_resource.causes import Cause, remedy, unpaid
from tpuflex.roles.roles import roles

#: Whose place the member has in an advised command.
_MEMBER = "MEMBER"
_PERMISSION = re.compile(r"\b[a-z]+\.[a-zA-Z]+\.[a-zA-Z]+\b")
_PROJECT = re.compile(r"\bprojects/([a-z][a-z0-9-]+)\b")


def refusal_remedy(text: str, project: str = "") -> str:
    """What to do about the refusals that ``text`` quotes; empty if they name neither billing nor a
    permission of ``roles.yaml``.

    Args:
        text: Google's words, one refusal or several.
        project: the project that they are about; by default the one that they name.
    """
    named = _PROJECT.search(text)
    project = project or (named[1] if named else "PROJECT")
    if unpaid(text):
        return remedy(Cause.BILLING, project=project)
    holders = {need.permission: need.role for need in roles().permissions}
    lacking = dict.fromkeys(_PERMISSION.findall(text))
    wanted = dict.fromkeys(holders[name] for name in lacking if name in holders)
    return grants(project, wanted)


def grants(
    project: str, wanted: Iterable[str], *, bucket: str = "", there: Iterable[str] = ()
) -> str:
    """The commands that grant a member the roles ``wanted`` on ``project``, and those that are
    wanted ``there``, in ``bucket`` (``gs://NAME``); empty for none."""
    commands = [str(grant_on_bucket(bucket, role, _MEMBER)) for role in there]
    commands += [str(grant(project, role, _MEMBER)) for role in wanted]
    if not commands:
        return ""
    return "\n".join((*commands, f"where {_MEMBER} is you, such as user:you@example.com"))
