"""Which Storage JSON v1 methods are implemented, and by whom."""

from __future__ import annotations

from embedded_cloud.routing import Context, Route, Service
from embedded_cloud.storage.bucket_handlers import BucketHandlers
from embedded_cloud.storage.download_handlers import DownloadHandlers
from embedded_cloud.storage.object_handlers import ObjectHandlers
from embedded_cloud.storage.state import StorageState
from embedded_cloud.storage.upload_handlers import UploadHandlers

_BUCKET = "/storage/v1/b/{bucket}"
_OBJECT = _BUCKET + "/o/{object}"
_UPLOAD = "/upload/storage/v1/b/{bucket}/o"
_COPY = (
    "/storage/v1/b/{sourceBucket}/o/{sourceObject}/%s/b/{destinationBucket}/o/{destinationObject}"
)


def service(context: Context) -> Service:
    """Cloud Storage."""
    state = StorageState.of(context)
    return Service(
        name="storage",
        version="v1",
        routes=(*_bucket_routes(BucketHandlers(state)), *_object_routes(state)),
        contract=("storage", "v1"),
        tick=state.sweep_once,
    )


def _bucket_routes(handlers: BucketHandlers) -> tuple[Route, ...]:
    return (
        Route("POST", "/storage/v1/b", "storage.buckets.insert", handlers.insert),
        Route("GET", "/storage/v1/b", "storage.buckets.list", handlers.list),
        Route("GET", _BUCKET, "storage.buckets.get", handlers.get),
        Route("PATCH", _BUCKET, "storage.buckets.patch", handlers.patch),
        Route("PUT", _BUCKET, "storage.buckets.update", handlers.update),
        Route("DELETE", _BUCKET, "storage.buckets.delete", handlers.delete),
        Route("GET", f"{_BUCKET}/iam", "storage.buckets.getIamPolicy", handlers.get_policy),
        Route("PUT", f"{_BUCKET}/iam", "storage.buckets.setIamPolicy", handlers.set_policy),
        Route(
            "GET",
            f"{_BUCKET}/iam/testPermissions",
            "storage.buckets.testIamPermissions",
            handlers.test_permissions,
        ),
        Route(
            "GET",
            f"{_BUCKET}/storageLayout",
            "storage.buckets.getStorageLayout",
            handlers.storage_layout,
        ),
        Route(
            "GET",
            f"{_BUCKET}/managedFolders",
            "storage.managedFolders.list",
            handlers.managed_folders,
        ),
        Route(
            "GET",
            "/storage/v1/projects/{projectId}/serviceAccount",
            "storage.projects.serviceAccount.get",
            handlers.service_account,
        ),
    )


def _object_routes(state: StorageState) -> tuple[Route, ...]:
    objects = ObjectHandlers(state)
    downloads = DownloadHandlers(state, objects)
    uploads = UploadHandlers(state)
    return (
        Route("GET", f"{_BUCKET}/o", "storage.objects.list", objects.list),
        Route("GET", _OBJECT, "storage.objects.get", downloads.get),
        Route("GET", f"/download{_OBJECT}", "storage.objects.get", downloads.media),
        Route("PATCH", _OBJECT, "storage.objects.patch", objects.patch),
        Route("PUT", _OBJECT, "storage.objects.update", objects.update),
        Route("DELETE", _OBJECT, "storage.objects.delete", objects.delete),
        Route(
            "POST",
            f"{_BUCKET}/o/{{destinationObject}}/compose",
            "storage.objects.compose",
            objects.compose,
        ),
        Route("POST", _COPY % "rewriteTo", "storage.objects.rewrite", objects.rewrite),
        Route("POST", _COPY % "copyTo", "storage.objects.copy", objects.copy),
        Route("POST", _UPLOAD, "storage.objects.insert", uploads.start),
        # gcloud begins resumable uploads under the second path of the discovery document.
        Route("POST", f"/resumable{_UPLOAD}", "storage.objects.insert", uploads.start),
        Route("PUT", _UPLOAD, "storage.objects.insert", uploads.resume),
        Route("DELETE", _UPLOAD, "storage.objects.insert", uploads.cancel),
    )
