"""Spans of time as people read them in progress lines."""

from __future__ import annotations

from datetime import timedelta

from tpuflex.duration import format_duration


def elapsed(seconds: float) -> str:
    """``3s``, ``12m``, ``2h5m``: seconds only while they matter."""
    whole = max(0, round(seconds))
    if whole >= 600:
        whole -= whole % 60
    return format_duration(timedelta(seconds=whole))
