"""A project, and the cloud of its stack."""

from tests.cli.conftest import cloud, invocation, stack, type_in

__all__ = ["cloud", "invocation", "stack", "type_in"]
