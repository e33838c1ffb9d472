"""A network that cannot be deleted, because a firewall rule that is not ours is in it. Pure.

Some organisations add rules to every network of every project, some minutes after it was made. A
rule is of no use without its network, but tpuflex deletes nothing that it has not made.
"""

from __future__ import annotations

import re

from tpuflex import gcloud_commands
from tpuflex.advice import Advice

#: https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-in-use
_IN_USE = re.compile(
    r"network resource 'projects/(?P<project>[^/']+)/global/networks/[^/']+' is already being used"
    r" by 'projects/[^']+/global/firewalls/(?P<rule>[^/']+)'"
)


def foreign_rules_advice(text: str) -> Advice | None:
    """What to do about a failed ``down`` whose messages are ``text``; None if no firewall rule
    keeps its network."""
    found = list(_IN_USE.finditer(text))
    if not found:
        return None
    rules = dict.fromkeys(match["rule"] for match in found)
    command = gcloud_commands.delete_firewall_rules(found[0]["project"], *rules)
    return Advice(
        "The stack has no such firewall rule: somebody else made it, or an organisation that adds"
        " rules to every network. Run: {command}\nthen `{down}` again.",
        command=command,
    )
