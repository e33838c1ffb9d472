"""The routes of the TPU API; the same table serves v2alpha1 and v2."""

from __future__ import annotations

from embedded_cloud.routing import Handler, Route
from embedded_cloud.tpu.catalog_handlers import CatalogHandlers
from embedded_cloud.tpu.handlers import TpuHandlers


def routes(handlers: TpuHandlers, catalog: CatalogHandlers, version: str) -> tuple[Route, ...]:
    """Every implemented method of ``version``."""
    project = f"/{version}/projects/{{project}}"
    zone = f"{project}/locations/{{zone}}"
    queued = f"{zone}/queuedResources"
    nodes = f"{zone}/nodes"
    operations = f"{zone}/operations"
    accelerators = f"{zone}/acceleratorTypes"
    runtimes = f"{zone}/runtimeVersions"
    table: tuple[tuple[str, str, str, Handler], ...] = (
        ("POST", queued, "queuedResources.create", handlers.create_queued_resource),
        ("GET", queued, "queuedResources.list", handlers.list_queued_resources),
        ("GET", f"{queued}/{{id}}", "queuedResources.get", handlers.get_queued_resource),
        ("DELETE", f"{queued}/{{id}}", "queuedResources.delete", handlers.delete_queued_resource),
        ("POST", f"{queued}/{{id}}:reset", "queuedResources.reset", handlers.reset_queued_resource),
        ("POST", nodes, "nodes.create", handlers.create_node),
        ("GET", nodes, "nodes.list", handlers.list_nodes),
        ("GET", f"{nodes}/{{id}}", "nodes.get", handlers.get_node),
        ("DELETE", f"{nodes}/{{id}}", "nodes.delete", handlers.delete_node),
        ("PATCH", f"{nodes}/{{id}}", "nodes.patch", handlers.patch_node),
        ("POST", f"{nodes}/{{id}}:stop", "nodes.stop", handlers.stop_node),
        ("POST", f"{nodes}/{{id}}:start", "nodes.start", handlers.start_node),
        (
            "POST",
            f"{nodes}/{{id}}:getGuestAttributes",
            "nodes.getGuestAttributes",
            handlers.get_guest_attributes,
        ),
        ("GET", operations, "operations.list", handlers.list_operations),
        ("GET", f"{operations}/{{id}}", "operations.get", handlers.get_operation),
        ("DELETE", f"{operations}/{{id}}", "operations.delete", handlers.delete_operation),
        ("POST", f"{operations}/{{id}}:cancel", "operations.cancel", handlers.cancel_operation),
        ("GET", accelerators, "acceleratorTypes.list", catalog.list_accelerator_types),
        ("GET", f"{accelerators}/{{id}}", "acceleratorTypes.get", catalog.get_accelerator_type),
        ("GET", runtimes, "runtimeVersions.list", catalog.list_runtime_versions),
        ("GET", f"{runtimes}/{{id}}", "runtimeVersions.get", catalog.get_runtime_version),
        (
            "POST",
            f"{zone}:generateServiceIdentity",
            "generateServiceIdentity",
            catalog.generate_service_identity,
        ),
        ("GET", zone, "get", catalog.get_location),
        ("GET", f"{project}/locations", "list", catalog.list_locations),
    )
    return tuple(
        Route(method, pattern, f"tpu.projects.locations.{name}", handler)
        for method, pattern, name, handler in table
    )
