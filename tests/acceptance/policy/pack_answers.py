"""What the pack's policies say of every case, as JSON: run by the pack's own Python.

Each policy is called as pulumi-policy's server calls it: inputs behind a proxy that raises on the
way to what is unknown, secrets in clear.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from pulumi_policy import (
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.policy import PolicyCustomTimeouts, PolicyResourceOptions
from pulumi_policy.proxy import unknown_checking_proxy

from tests.policy.cases import BREAKS, KEEPS, NOW, Case
from tpuflex.policy.planned import Planned
from tpuflex.policy_pack.judge import Judge
from tpuflex.policy_pack.policies import policies
from tpuflex.settings.policy_section import Waiver

OPTIONS = PolicyResourceOptions(False, [], False, None, [], PolicyCustomTimeouts(0, 0, 0), [])


def resource(planned: Planned) -> tuple[Any, ...]:
    inputs = unknown_checking_proxy(dict(planned.inputs))
    return planned.type, inputs, planned.urn, planned.name, OPTIONS, None


def answers(case: Case, *, waived: bool) -> list[str]:
    """Every violation that is reported, by the name of the policy, the level and the message."""
    waiver = Waiver(rule=case.rule.id, reason="a", until=NOW.date() + timedelta(days=1))
    judge = Judge(NOW, case.facts, (waiver,) if waived else ())
    found: list[str] = []
    for policy in policies(lambda: judge):

        def report(message: str, urn: str | None = None, policy: Any = policy) -> None:
            del urn
            found.append(f"{policy.enforcement_level.value} {policy.name}: {message}")

        if isinstance(policy, ResourceValidationPolicy):
            for planned in case.resources:
                policy.validate(ResourceValidationArgs(*resource(planned)), report)
        if isinstance(policy, StackValidationPolicy):
            every = [PolicyResource(*resource(each), None, [], {}) for each in case.resources]
            policy.validate(StackValidationArgs(every), report)
    return sorted(found)


if __name__ == "__main__":
    json.dump(
        {
            f"{case} {waived}": answers(case, waived=waived)
            for case in (*BREAKS, *KEEPS)
            for waived in (False, True)
        },
        sys.stdout,
    )
