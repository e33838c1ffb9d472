"""Cloud TPU API, v2alpha1 and v2: queued resources, nodes, operations; v1 to look at."""

from __future__ import annotations

from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.routing import Context, Service
from embedded_cloud.tpu import v1
from embedded_cloud.tpu.catalog_handlers import CatalogHandlers
from embedded_cloud.tpu.handlers import TpuHandlers
from embedded_cloud.tpu.routes import routes
from embedded_cloud.tpu.state import TpuState
from embedded_cloud.tpu.wire import Version

__all__ = ["TpuState", "services"]


def services(context: Context, state: TpuState) -> tuple[Service, ...]:
    """The service in all its versions, over one state."""
    guest = GuestAttributes(context.store)
    catalog = CatalogHandlers(context.project_number)
    built = []
    for name in ("v2alpha1", "v2"):
        version = Version(name, context.project_number)
        handlers = TpuHandlers(state, version, guest, context.clock)
        built.append(
            Service(
                name="tpu",
                version=name,
                routes=routes(handlers, catalog, name),
                contract=("tpu", name),
                tick=state.sync if name == "v2alpha1" else None,
            )
        )
    old = v1.OldHandlers(state, catalog, Version("v2alpha1", context.project_number))
    built.append(
        Service(name="tpu", version="v1", routes=v1.routes(old, catalog), contract=("tpu", "v1"))
    )
    return tuple(built)
