"""The Cloud Storage JSON v1 methods that are emulated, and reads by the XML API's path."""

from __future__ import annotations

from embedded_cloud.core.routing import Context, Route, Service
from embedded_cloud.services.storage.copy_handlers import CopyHandlers
from embedded_cloud.services.storage.downloads import DownloadHandlers, XmlHandlers
from embedded_cloud.services.storage.handlers import BucketHandlers
from embedded_cloud.services.storage.object_handlers import ObjectHandlers
from embedded_cloud.services.storage.state import StorageState
from embedded_cloud.services.storage.upload_handlers import UploadHandlers

_UPLOAD = "/upload/storage/v1/b/{bucket}/o"


def service(context: Context) -> Service:
    """Cloud Storage."""
    state = StorageState.of(context)
    buckets = BucketHandlers(state)
    objects = ObjectHandlers(state)
    copies = CopyHandlers(state, context.clock)
    downloads = DownloadHandlers(state, objects)
    return Service(
        name="storage",
        version="v1",
        handlers={
            "storage.buckets.insert": buckets.insert,
            "storage.buckets.list": buckets.list,
            "storage.buckets.get": buckets.get,
            "storage.buckets.patch": buckets.patch,
            "storage.buckets.update": buckets.update,
            "storage.buckets.delete": buckets.delete,
            "storage.buckets.lockRetentionPolicy": buckets.lock_retention_policy,
            "storage.buckets.getIamPolicy": buckets.get_policy,
            "storage.buckets.setIamPolicy": buckets.set_policy,
            "storage.buckets.testIamPermissions": buckets.test_permissions,
            "storage.buckets.getStorageLayout": buckets.storage_layout,
            "storage.managedFolders.list": buckets.managed_folders,
            "storage.projects.serviceAccount.get": buckets.service_account,
            "storage.objects.list": objects.list,
            "storage.objects.get": downloads.get,
            "storage.objects.patch": objects.patch,
            "storage.objects.delete": objects.delete,
            "storage.objects.rewrite": copies.rewrite,
        },
        extra_routes=(
            # The document's own path for downloads, beside that for plain JSON.
            Route(
                "GET",
                "/download/storage/v1/b/{bucket}/o/{object}",
                "storage.objects.get",
                downloads.media,
            ),
            *_upload_routes(UploadHandlers(state)),
        ),
        fallback=XmlHandlers(state, downloads).find,
        tick=state.sweep_once,
    )


def _upload_routes(uploads: UploadHandlers) -> tuple[Route, ...]:
    """objects.insert, which has no handler for its plain path: an object needs content.

    The document has the two upload paths, but not the requests to a session's URI.
    """
    method_id = "storage.objects.insert"
    return (
        Route("POST", _UPLOAD, method_id, uploads.start),
        Route("POST", f"/resumable{_UPLOAD}", method_id, uploads.start),
        Route("PUT", _UPLOAD, method_id, uploads.resume),
        Route("DELETE", _UPLOAD, method_id, uploads.cancel),
    )
