"""Buckets and objects as the JSON API returns them, and their etags."""

from __future__ import annotations

import base64
from urllib.parse import quote

from embedded_cloud.core.clock import rfc3339_millis
from embedded_cloud.core.json_types import JsonObject, text
from embedded_cloud.services.storage.buckets import Bucket, location_type
from embedded_cloud.services.storage.objects import StoredObject


def bucket_resource(bucket: Bucket, *, base_url: str, project_number: str) -> JsonObject:
    """The Bucket resource."""
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "name": bucket.name,
        "selfLink": f"{base_url}/storage/v1/b/{bucket.name}",
        "projectNumber": project_number,
        "generation": str(bucket.generation),
        "metageneration": str(bucket.metageneration),
        "etag": counter_etag(bucket.metageneration),
        "location": bucket.location,
        "locationType": location_type(bucket.location),
        "timeCreated": rfc3339_millis(bucket.created),
        "updated": rfc3339_millis(bucket.updated),
        **bucket.settings,
    }


def object_resource(stored: StoredObject, *, base_url: str, kept_until: float | None) -> JsonObject:
    """The Object resource of ``stored``, which a retention policy keeps for so long."""
    path = f"b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    created = rfc3339_millis(stored.created)
    resource: JsonObject = {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}",
        "selfLink": f"{base_url}/storage/v1/{path}",
        "mediaLink": (
            f"{base_url}/download/storage/v1/{path}?generation={stored.generation}&alt=media"
        ),
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": str(stored.generation),
        "metageneration": str(stored.metageneration),
        "size": str(stored.digest.size),
        "crc32c": stored.digest.crc32c,
        "md5Hash": stored.digest.md5,
        "etag": object_etag(stored.generation, stored.metageneration),
        "timeCreated": created,
        "updated": rfc3339_millis(stored.updated),
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
        **stored.settable,
    }
    if stored.kms_key:
        resource["kmsKeyName"] = stored.kms_key
    if kept_until is not None:
        resource["retentionExpirationTime"] = rfc3339_millis(kept_until)
    if stored.deleted is not None:
        resource["timeDeleted"] = rfc3339_millis(stored.deleted)
    return resource


def media_headers(stored: StoredObject) -> dict[str, str]:
    """Headers of a download, beside those of the range."""
    encoding = text(stored.settable, "contentEncoding")
    headers = {
        "Content-Type": text(stored.settable, "contentType", "application/octet-stream"),
        "ETag": object_etag(stored.generation, stored.metageneration),
        "Accept-Ranges": "bytes",
        "Cache-Control": text(stored.settable, "cacheControl")
        or "no-cache, no-store, max-age=0, must-revalidate",
        "X-Goog-Generation": str(stored.generation),
        "X-Goog-Metageneration": str(stored.metageneration),
        "X-Goog-Hash": f"crc32c={stored.digest.crc32c},md5={stored.digest.md5}",
        "X-Goog-Storage-Class": text(stored.settable, "storageClass", "STANDARD"),
        "X-Goog-Stored-Content-Encoding": encoding or "identity",
        "X-Goog-Stored-Content-Length": str(stored.digest.size),
    }
    if encoding:
        headers["Content-Encoding"] = encoding
    return headers


def object_etag(generation: int, metageneration: int) -> str:
    """The etag of one generation of an object: base64 of a two-field protobuf, as Google's are."""
    message = b"\x08" + _varint(generation) + b"\x10" + _varint(metageneration)
    return base64.b64encode(message).decode()


def counter_etag(value: int) -> str:
    """The etag of a resource with one counter: a bucket, a bucket's policy."""
    return base64.b64encode(b"\x08" + _varint(value)).decode()


def _varint(value: int) -> bytes:
    """``value`` (not negative) as a protobuf base-128 integer."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        if not value:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)
