"""Identities that Google assigns and the emulator derives: numbers and service accounts."""

from __future__ import annotations

import hashlib


def numeric_id(name: str, created_at: float) -> str:
    """The int64 id of the resource ``name`` created at that time; another one if recreated."""
    digest = hashlib.sha256(f"{name}\0{created_at!r}".encode()).digest()
    return str(int.from_bytes(digest[:8]) >> 1 | 1 << 60)


def default_service_account(project_number: str) -> str:
    """The account that nodes run as when none is named."""
    return f"{project_number}-compute@developer.gserviceaccount.com"


def service_agent(project_number: str) -> str:
    """The Cloud TPU service agent of a project."""
    return f"service-{project_number}@cloud-tpu.iam.gserviceaccount.com"
