"""The error of a docker command."""

from __future__ import annotations


class DockerError(Exception):
    """What docker writes to stderr, with its exit code."""

    def __init__(self, message: str, code: int = 125) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
