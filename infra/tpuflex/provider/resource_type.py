"""What each resource type of the provider answers, and the table of the types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.values import type_of
from tpuflex.errors import TpuflexError


class ResourceType(Protocol):
    """The calls about the resources of one type, each with a thread of its own.

    Raises, from all of them:
        TpuflexError: for the console.
    """

    def check(self, request: provider_pb2.CheckRequest) -> provider_pb2.CheckResponse:
        """The inputs with defaults, or what is wrong with them."""

    def diff(self, request: provider_pb2.DiffRequest) -> provider_pb2.DiffResponse:
        """What changed inputs mean."""

    def create(self, request: provider_pb2.CreateRequest) -> provider_pb2.CreateResponse:
        """Make it, or in a preview tell what is known of it beforehand."""

    def read(self, request: provider_pb2.ReadRequest) -> provider_pb2.ReadResponse:
        """What became of it; an answer without an id says that it is gone."""

    def update(self, request: provider_pb2.UpdateRequest) -> provider_pb2.UpdateResponse:
        """Change it in place."""

    def delete(self, request: provider_pb2.DeleteRequest) -> Empty:
        """Delete it."""


T = TypeVar("T")


def type_in(types: Mapping[str, T], urn: str) -> T:
    """The one of ``types``, by their tokens, that ``urn`` is of.

    Raises:
        TpuflexError: it is of another.
    """
    token = type_of(urn)
    if token not in types:
        raise TpuflexError(
            f"the tpuflex provider has no resource type {token!r}",
            hint=f"It has {' and '.join(types)}. Is another version of tpuflex installed?",
        )
    return types[token]
