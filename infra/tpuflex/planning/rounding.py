"""Sizes in bytes, rounded as the TPU back-end does it, on integers."""

from __future__ import annotations

KIB, GIB = 2**10, 2**30


def ceiling(number: int, divisor: int) -> int:
    """``number / divisor``, rounded up."""
    return -(-number // divisor)


def multiple(number: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``number``."""
    return ceiling(number, step) * step


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below ``number``; 1 for what is below 1."""
    return 1 << max(number - 1, 0).bit_length()
