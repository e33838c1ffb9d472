"""A stack, its cloud, and a cloud where all is well."""

from tests.cli.conftest import cloud, invocation, stack, type_in
from tests.doctor.conftest import doctor

__all__ = ["cloud", "doctor", "invocation", "stack", "type_in"]
