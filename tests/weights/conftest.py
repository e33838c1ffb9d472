"""The clouds that weights are pushed to: one with a bucket alone, one of a stack, one where all is
well."""

from tests.cli.conftest import answer, cloud, invocation, stack, type_in
from tests.doctor.conftest import doctor
from tests.google.conftest import checkpoint, clients

__all__ = ["answer", "checkpoint", "clients", "cloud", "doctor", "invocation", "stack", "type_in"]
