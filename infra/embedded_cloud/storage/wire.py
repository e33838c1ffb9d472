"""Buckets and objects as the JSON API spells them."""

from __future__ import annotations

import base64
from urllib.parse import quote

from embedded_cloud.clock import rfc3339_millis
from embedded_cloud.json_types import JsonObject, text
from embedded_cloud.storage.buckets import Bucket, location_type
from embedded_cloud.storage.objects import StoredObject


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


def object_resource(found: StoredObject, *, base_url: str) -> JsonObject:
    """The Object resource."""
    path = f"b/{found.bucket}/o/{quote(found.name, safe='')}"
    created = rfc3339_millis(found.created)
    resource: JsonObject = {
        "kind": "storage#object",
        "id": f"{found.bucket}/{found.name}/{found.generation}",
        "selfLink": f"{base_url}/storage/v1/{path}",
        "mediaLink": (
            f"{base_url}/download/storage/v1/{path}?generation={found.generation}&alt=media"
        ),
        "name": found.name,
        "bucket": found.bucket,
        "generation": str(found.generation),
        "metageneration": str(found.metageneration),
        "size": str(found.digest.size),
        "crc32c": found.digest.crc32c,
        "etag": object_etag(found.generation, found.metageneration),
        "timeCreated": created,
        "updated": rfc3339_millis(found.updated),
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
        **found.settable,
    }
    if found.components is None:
        resource["md5Hash"] = found.digest.md5
    else:
        # A composite object has no MD5.
        resource["componentCount"] = found.components
    if found.deleted is not None:
        resource["timeDeleted"] = rfc3339_millis(found.deleted)
    return resource


def media_headers(found: StoredObject) -> dict[str, str]:
    """Headers of a download, beside those of the range."""
    hashes = f"crc32c={found.digest.crc32c}"
    if found.components is None:
        hashes += f",md5={found.digest.md5}"
    encoding = text(found.settable, "contentEncoding")
    headers = {
        "Content-Type": text(found.settable, "contentType", "application/octet-stream"),
        "ETag": object_etag(found.generation, found.metageneration),
        "Accept-Ranges": "bytes",
        "Cache-Control": text(found.settable, "cacheControl")
        or "no-cache, no-store, max-age=0, must-revalidate",
        "X-Goog-Generation": str(found.generation),
        "X-Goog-Metageneration": str(found.metageneration),
        "X-Goog-Hash": hashes,
        "X-Goog-Storage-Class": text(found.settable, "storageClass", "STANDARD"),
        "X-Goog-Stored-Content-Encoding": encoding or "identity",
        "X-Goog-Stored-Content-Length": str(found.digest.size),
    }
    if encoding:
        headers["Content-Encoding"] = encoding
    return headers


def object_etag(generation: int, metageneration: int) -> str:
    """The etag of one generation of an object: base64 of a two-field protobuf, as Google's are."""
    message = b"\x08" + _varint(generation) + b"\x10" + _varint(metageneration)
    return base64.b64encode(message).decode()


def counter_etag(value: int) -> str:
    """The etag of what is told apart by one counter: a bucket, a bucket's policy."""
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
