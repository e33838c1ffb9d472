"""What the engine runs: `pulumi preview --policy-pack DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path

# The pack's environment has no tpuflex. Last, so that nothing beside it hides what it has.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from pulumi_policy import PolicyPack

from tpuflex.policy_pack.policies import policies, stack_judge

PolicyPack("tpuflex", policies(stack_judge))
