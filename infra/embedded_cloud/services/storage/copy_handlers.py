"""HTTP calls that copy an object: ``rewriteTo`` with its tokens.

https://cloud.google.com/storage/docs/json_api/v1/objects/rewrite
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.json_types import JsonObject, merge
from embedded_cloud.core.paging import decode_token, encode_token
from embedded_cloud.core.routing import Call, Reply
from embedded_cloud.services.storage.buckets import Bucket
from embedded_cloud.services.storage.errors import Preconditions, integer, invalid
from embedded_cloud.services.storage.handlers import refuse_unsupported
from embedded_cloud.services.storage.object_handlers import only_settable, with_class
from embedded_cloud.services.storage.objects import StoredObject
from embedded_cloud.services.storage.state import StorageState

_MIB = 2**20
#: Bytes that one call rewrites into another location or storage class, unless the caller says.
#: Google does not say how much; little enough that whatever is large takes several calls.
BYTES_PER_CALL = 16 * _MIB
#: Seconds for which a token is good.
_TOKEN_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy that a call asks for, and that may be made.

    Attributes:
        source: the object.
        bucket: where to.
        name: under which name.
        settable: the fields that the copy will have.
        near: whether both are in one location and storage class.
    """

    source: StoredObject
    bucket: Bucket
    name: str
    settable: JsonObject
    near: bool


@dataclass(frozen=True, slots=True)
class _Progress:
    """What a token says.

    Attributes:
        what: source and destination.
        per_call: bytes of each call.
        done: bytes that were rewritten.
        began: when, in epoch seconds.
    """

    what: list[str]
    per_call: int
    done: int
    began: float

    def token(self) -> str:
        return encode_token(json.dumps([self.what, self.per_call, self.done, self.began]))

    @classmethod
    def of(cls, token: str) -> _Progress:
        """Raises CloudError 400 for what is no token."""
        try:
            what, per_call, done, began = json.loads(decode_token(token))
            return cls([str(each) for each in what], int(per_call), int(done), float(began))
        except (ValueError, TypeError):
            raise _bad_token() from None


class CopyHandlers:
    """Handlers of copies within the cloud.

    Args:
        state: buckets and objects.
        clock: tells how old a token is.
    """

    def __init__(self, state: StorageState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def rewrite(self, call: Call) -> Reply:
        """POST …/rewriteTo/…: done in one call within one location and storage class, else with a
        token until all is there."""
        asked = self._asked(call)
        size = asked.source.digest.size
        begun = self._progress(call, asked)
        done = size if asked.near else min(begun.done + begun.per_call, size)
        body: JsonObject = {
            "kind": "storage#rewriteResponse",
            "done": done == size,
            "objectSize": str(size),
            "totalBytesRewritten": str(done),
        }
        if done == size:
            body["resource"] = self._resource(self._made(asked))
        else:
            body["rewriteToken"] = replace(begun, done=done).token()
        return Reply(body=body)

    def _progress(self, call: Call, asked: _Copy) -> _Progress:
        """Where the rewrite stands before this call.

        Raises:
            CloudError: 400, the token is of another rewrite, or the number of bytes none; 410, it
                is too old.
        """
        per_call = integer(call.query, "maxBytesRewrittenPerCall")
        if per_call is not None and (per_call < _MIB or per_call % _MIB):
            raise invalid(f"Invalid value for maxBytesRewrittenPerCall: {per_call}")
        what = [asked.source.key, f"{asked.bucket.name}/{asked.name}"]
        token = call.query.get("rewriteToken")
        if not token:
            return _Progress(what, per_call or BYTES_PER_CALL, 0, self._clock.now())
        begun = _Progress.of(token)
        if begun.what != what or per_call not in (None, begun.per_call):
            raise _bad_token()
        if self._clock.now() - begun.began > _TOKEN_SECONDS:
            raise CloudError(410, "FAILED_PRECONDITION", "The rewrite token has expired.")
        return begun

    def _asked(self, call: Call) -> _Copy:
        """The copy that ``call`` asks for.

        Raises:
            CloudError: there is no such object, a condition does not hold, or a key may not be
                used.
        """
        refuse_unsupported(call, {})
        home = self._state.buckets.require(call.params["sourceBucket"])
        source = self._state.objects.require(
            home.name,
            call.params["sourceObject"],
            integer(call.query, "sourceGeneration"),
            Preconditions.from_query(call.query, source=True),
            read=False,
        )
        self._state.keys.check_readable(home, source.kms_key)
        bucket = self._state.buckets.require(call.params["destinationBucket"])
        name = call.params["destinationObject"]
        conditions = Preconditions.from_query(call.query)
        self._state.objects.check_absent_or(bucket.name, name, conditions)
        body = merge({}, only_settable(call.body or {}))
        # A body replaces the metadata; without one it is the source's.
        settable = body or {**source.settable}
        if "storageClass" not in body:
            settable.pop("storageClass", None)
        settable = with_class(bucket, settable)
        same_class = settable["storageClass"] == source.settable.get("storageClass")
        near = home.location == bucket.location and same_class
        return _Copy(source, bucket, name, settable, near)

    def _made(self, asked: _Copy) -> StoredObject:
        source, bucket = asked.source, asked.bucket
        return self._state.objects.create(
            bucket.name,
            asked.name,
            content=self._state.files.link(source.content),
            digest=source.digest,
            settable=asked.settable,
            versioned=bucket.versioned,
            kms_key=self._state.keys.encrypting(bucket),
        )

    def _resource(self, stored: StoredObject) -> JsonObject:
        return self._state.resource(stored)


def _bad_token() -> CloudError:
    return invalid("The rewrite token is invalid for this request.")
