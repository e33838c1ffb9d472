"""A key of the user's own that encrypts what an endpoint makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import kms

from tpuflex.components.inputs import inputs_of
from tpuflex.components.ownership import read_only_options
from tpuflex.google.existing_key import unusable


@dataclass(frozen=True, kw_only=True)
class ExistingKeyArgs:
    """Inputs of :class:`ExistingKey`."""

    kms_key: str
    """Full name of the key."""


class ExistingKey(pulumi.ComponentResource):
    """A key that tpuflex does not manage.

    The engine reads it, at every plan, and never changes or deletes it. Nothing is granted on it:
    who may use it, those decide who look after it.

    Args:
        unread: whether a preview is to do without reading it, for a caller who may not.

    Attributes:
        key: its name, once it is seen to be usable.
    """

    key: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: ExistingKeyArgs,
        opts: pulumi.ResourceOptions | None = None,
        *,
        unread: bool = False,
    ) -> None:
        super().__init__("tpuflex:index:ExistingKey", name, inputs_of(args), opts)
        if unread and pulumi.runtime.is_dry_run():
            self.key = pulumi.Output.from_input(args.kms_key)
            self.register_outputs({})
            return
        found = kms.CryptoKey.get(name, args.kms_key, opts=read_only_options(self, opts))
        seen = pulumi.Output.all(found.purpose, found.primaries)
        # Also where a preview does not know one of them: a key that is not known would replace the
        # slice.
        self.key = seen.apply(lambda known: require_usable(args, known), run_with_unknowns=True)
        self.register_outputs({})


def require_usable(args: ExistingKeyArgs, seen: object) -> str:
    """The key of ``args`` if it can encrypt."""
    purpose, primaries = seen if isinstance(seen, Sequence) else (None, None)
    primary: object = None
    if isinstance(primaries, Sequence):
        primary = primaries[0] if primaries else {}
    if refusal := unusable(args.kms_key, purpose, primary):
        raise pulumi.RunError(refusal)
    return args.kms_key
