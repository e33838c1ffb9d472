"""Calls on Cloud Storage, for its tests."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import requests

from tests.embedded_cloud.api import PROJECT, TOKEN, Api

AUTH = {"Authorization": f"Bearer {TOKEN}"}
BUCKET = "storage/v1/b/bk-1"


def make_bucket(api: Api, name: str = "bk-1", **body: Any) -> Any:
    """Make a bucket, which must be accepted."""
    answer = api.call("POST", "storage/v1/b", body={"name": name, **body}, project=PROJECT)
    assert answer.status_code == 200, answer.text
    return answer.json()


def upload(
    api: Api, name: str, data: bytes = b"", bucket: str = "bk-1", **query: str
) -> requests.Response:
    """Ask for an object of plain text."""
    return requests.post(
        f"{api.url}/upload/storage/v1/b/{bucket}/o",
        params={"uploadType": "media", "name": name, **query},
        data=data,
        headers=AUTH | {"Content-Type": "text/plain"},
        timeout=30,
    )


def put(api: Api, name: str, data: bytes = b"", bucket: str = "bk-1", **query: str) -> Any:
    """Make an object, which must be accepted; gives its resource."""
    answer = upload(api, name, data, bucket, **query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def path_of(name: str, bucket: str = "bk-1") -> str:
    """The path of an object's resource."""
    return f"storage/v1/b/{bucket}/o/{quote(name, safe='')}"
