"""What a memory plan says beside its figures."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.planning.figure import GIB, KIB


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that forbids a plan, or that its reader should know.

    Attributes:
        setting: the key below ``tpuflex:`` that it is about, such as
            ``serving.flags.max_model_len``.
        what: what is wrong, a sentence without its full stop.
        nearest: what to write instead, a whole sentence; empty where nothing is to be written.
    """

    setting: str
    what: str
    nearest: str = ""


def gib(size: int) -> str:
    """``size`` bytes in GiB, such as ``15.29 GiB``."""
    return f"{size / GIB:,.2f} GiB"


def kib(size: int) -> str:
    """``size`` bytes in KiB, such as ``120 KiB``."""
    return f"{size / KIB:,.0f} KiB"
