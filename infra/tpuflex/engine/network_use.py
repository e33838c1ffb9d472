"""A network that cannot be deleted, because a firewall rule that is not ours is in it. Pure.

Some organisations add rules to every network of every project, some minutes after it was made. A
rule is of no use without its network, but tpuflex deletes nothing that it has not made.
"""

from __future__ import annotations

from tpuflex import gcloud_commands, sentences
from tpuflex.advice import Advice


def foreign_rules_advice(text: str) -> Advice | None:
    """What to do about a failed ``down`` whose messages are ``text``; None if no firewall rule
    keeps its network."""
    found = list(sentences.NETWORK_IN_USE.finditer(text))
    if not found:
        return None
    rules = dict.fromkeys(match["rule"] for match in found)
    command = gcloud_commands.delete_firewall_rules(found[0]["project"], *rules)
    return Advice(
        "The stack has no such firewall rule: somebody else made it, or an organisation that adds"
        " rules to every network. Run: {command}\nthen `{down}` again.",
        command=command,
    )
