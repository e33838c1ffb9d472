"""A bucket on the embedded cloud, with Google's own library.

In a shell after ``eval "$(tpuflex emulator env)"``.
"""

from __future__ import annotations

from google.cloud.storage import Client  # type: ignore[import-untyped]

with Client() as client:
    bucket = client.create_bucket("my-weights")
    bucket.blob("hello.txt").upload_from_string("hello")
    print([blob.name for blob in bucket.list_blobs()])
