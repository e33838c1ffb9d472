"""A bucket whose readers pay is refused in words, by either of the clients that meet it."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import BadRequest

from tpuflex.errors import ApiError, RequesterPaysError
from tpuflex.google.rpc_errors import RpcError, as_exception
from tpuflex.weights.storage_errors import translated_errors

URL = "https://storage.googleapis.com/storage/v1/b/acme-models/o"
HINT = (
    "Run: gcloud storage buckets update gs://acme-models --no-requester-pays\n"
    "Or name another bucket, which holds a copy."
)
#: Both have been seen of Google.
REFUSALS = (
    "Bucket is a requester pays bucket but no user project provided.",
    "Bucket is requester pays bucket but no user project provided.",
)


@pytest.mark.parametrize("said", REFUSALS)
def test_whoever_reads_objects_is_told(said: str) -> None:
    """By Google's library, with the bucket and the command that ends it."""
    with pytest.raises(RequesterPaysError) as caught, translated_errors("acme-models"):
        raise BadRequest(said)  # type: ignore[no-untyped-call]
    assert caught.value.message.startswith("gs://acme-models lets whoever reads it pay")
    assert str(caught.value.hint) == HINT


@pytest.mark.parametrize("said", REFUSALS)
def test_whoever_looks_at_the_bucket_is_told(said: str) -> None:
    """By a request of our own, where Google gives no description of the bucket."""
    refused = RpcError(400, "", said, frozenset({"required"}))
    told = as_exception(refused, method="GET", url=URL)
    assert isinstance(told, RequesterPaysError)
    assert str(told.hint) == HINT


def test_another_bad_request_is_none_of_it() -> None:
    """It is told as Google has said it."""
    with (
        pytest.raises(ApiError, match="gs://acme-models") as caught,
        translated_errors("acme-models"),
    ):
        raise BadRequest("Invalid argument")  # type: ignore[no-untyped-call]
    assert caught.value.status == 400
    told = as_exception(RpcError(400, "", "Invalid argument", frozenset()), method="GET", url=URL)
    assert isinstance(told, ApiError)
