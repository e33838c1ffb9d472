"""Names as `pulumi:autonaming` of the stack wants them, for what the program gives none.

https://www.pulumi.com/docs/iac/concepts/resources/names/#autonaming-configuration
"""

from __future__ import annotations

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.values import Properties

_Options = provider_pb2.CheckRequest.AutonamingOptions
#: Inputs that name a request.
_NAMES = ("queuedResourceId", "queuedResourceIdPrefix")


def autonamed(
    request: provider_pb2.CheckRequest, given: Properties, before: Properties
) -> tuple[Properties, list[tuple[str, str]]]:
    """The inputs that the engine's proposal makes, and what keeps it from being honoured.

    A proposal is what generated ids begin with, so that each generation has its own; an enforced
    name is the id itself. What has a name keeps it (docs/adr/0024).

    Args:
        request: the engine's check.
        given: what the program said.
        before: inputs as they are in the state.
    """
    if not request.HasField("autonaming") or any(key in given for key in _NAMES):
        return {}, []
    held = {key: before[key] for key in _NAMES if key in before}
    if "queuedResourceIdPrefix" in held:
        return {}, []
    if held:
        return held, []
    proposed, mode = request.autonaming.proposed_name, request.autonaming.mode
    if mode == _Options.DISABLE:
        reason = (
            "pulumi:autonaming is disabled, and neither this nor queuedResourceIdPrefix is given."
            " Write one of them."
        )
        return {}, [("queuedResourceId", reason)]
    key = "queuedResourceId" if mode == _Options.ENFORCE else "queuedResourceIdPrefix"
    return {key: proposed}, []
