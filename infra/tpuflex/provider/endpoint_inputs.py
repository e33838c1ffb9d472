"""What `VllmEndpoint` takes from a program in another language.

Imported when somebody asks for the package schema or for an endpoint: the settings would slow the
start of every preview.
"""

from __future__ import annotations

from pydantic import Field

from tpuflex.naming import Names
from tpuflex.settings.base import Frozen
from tpuflex.settings.model import StackSettings

#: Sections of a stack file that the command line alone looks at.
_OF_THE_COMMAND_LINE = ("budget", "waivers")
#: The input beside the sections.
NAMES = "names"
SECTIONS = tuple(name for name in StackSettings.model_fields if name not in _OF_THE_COMMAND_LINE)
#: What an endpoint takes that a program does not name.
DEFAULTS = {"cloud": "google"}


class KeptNames(Frozen):
    """What an endpoint was called by, whose names in the cloud it is to keep when project, stack or
    name are another one now."""

    project: str = Field(min_length=1)
    """Name of the Pulumi project."""

    stack: str = Field(min_length=1)
    """Name of the stack, without the organization."""

    name: str = Field(min_length=1)
    """Name of the endpoint in the program."""

    bucket_suffix: str = ""
    """What its bucket's name ended with, if `model.weights.bucket_suffix` was set."""

    @property
    def names(self) -> Names:
        """The names in the cloud."""
        return Names(self.project, self.stack, self.name, self.bucket_suffix)
