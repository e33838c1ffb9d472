"""The Service Usage v1 methods that are emulated."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from embedded_cloud.core.clock import Clock, rfc3339
from embedded_cloud.core.errors import invalid_argument, not_found, unimplemented
from embedded_cloud.core.json_types import JsonObject, texts
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import number_of
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.core.store import Store
from embedded_cloud.services.serviceusage.state import KNOWN, ProjectService, ProjectServices

OPERATIONS = "_serviceusage/operations"
_TYPE = "type.googleapis.com/google.api.serviceusage.v1."
_BATCH_LIMIT = 20
_PAGING = Paging(default=50, maximum=200)


class ServiceHandlers:
    """Handlers of ``services`` and ``operations``. Operations are done when they are answered."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        services: ProjectServices,
    ) -> None:
        self._store = store
        self._clock = clock
        self._services = services

    def get(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/services/{service}."""
        service = self._services.get(self._number(call), call.params["service"])
        return Reply(body=_resource(service))

    def list(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/services."""
        if int(call.query.get("pageSize", "0")) > _PAGING.maximum:
            raise invalid_argument(f"page_size must be at most {_PAGING.maximum}.")
        enabled = _state_filter(call.query.get("filter", ""))
        services = [
            each
            for each in self._services.all(self._number(call))
            if enabled in (None, each.enabled)
        ]
        return _PAGING.reply(call, "services", services, lambda each: each.name, _resource)

    def batch_get(self, call: Call) -> Reply:
        """GET /v1/projects/{project}/services:batchGet."""
        number = self._number(call)
        names = [name.rpartition("/")[2] for name in call.request.query.getall("names", [])]
        return Reply(
            body={"services": [_resource(self._services.get(number, name)) for name in names]}
        )

    def enable(self, call: Call) -> Reply:
        """POST …/services/{service}:enable."""
        return self._switch(call, enabled=True, answer="EnableServiceResponse")

    def disable(self, call: Call) -> Reply:
        """POST …/services/{service}:disable."""
        return self._switch(call, enabled=False, answer="DisableServiceResponse")

    def batch_enable(self, call: Call) -> Reply:
        """POST …/services:batchEnable: all of them, or none when one is not known."""
        number = self._number(call)
        names = texts(call.body or {}, "serviceIds")
        if len(names) > _BATCH_LIMIT:
            raise invalid_argument(f"At most {_BATCH_LIMIT} services can be enabled at once.")
        for name in names:
            self._services.get(number, name)
        self._services.check_billing(number, names)
        enabled = [self._services.set_enabled(number, name, True) for name in names]
        return self._done(
            enabled,
            {
                "@type": f"{_TYPE}BatchEnableServicesResponse",
                "services": [_resource(each) for each in enabled],
            },
        )

    def operation(self, call: Call) -> Reply:
        """GET /v1/operations/{operation}."""
        name = f"operations/{call.id}"
        operation = self._store.get(OPERATIONS, name)
        if operation is None:
            raise not_found(f"Operation not found: {name}")
        return Reply(body=operation)

    def _switch(self, call: Call, *, enabled: bool, answer: str) -> Reply:
        number, name = self._number(call), call.params["service"]
        self._services.get(number, name)
        if enabled:
            self._services.check_billing(number, [name])
        service = self._services.set_enabled(number, name, enabled)
        return self._done([service], {"@type": f"{_TYPE}{answer}", "service": _resource(service)})

    def _done(self, touched: Sequence[ProjectService], response: JsonObject) -> Reply:
        seed = f"{rfc3339(self._clock.now())} {' '.join(each.resource for each in touched)}"
        name = f"operations/acf.p2-{hashlib.sha256(seed.encode()).hexdigest()[:32]}"
        operation: JsonObject = {
            "name": name,
            "metadata": {
                "@type": f"{_TYPE}OperationMetadata",
                "resourceNames": [each.resource for each in touched],
            },
            "done": True,
            "response": response,
        }
        self._store.put(OPERATIONS, name, operation)
        return Reply(body=operation)

    def _number(self, call: Call) -> str:
        """The project's number; a project may also be named by it."""
        # The document's paths are /v1/{v1Id}/{v1Id1}/services: a parent is a type and an id.
        if call.params["v1Id"] != "projects":
            raise unimplemented(f"{call.method_id} of {call.params['v1Id']}")
        return number_of(call.params["v1Id1"])


def _resource(service: ProjectService) -> JsonObject:
    return {
        "name": service.resource,
        "parent": f"projects/{service.project_number}",
        "config": {"name": service.name, "title": KNOWN[service.name]},
        "state": "ENABLED" if service.enabled else "DISABLED",
    }


def _state_filter(expression: str) -> bool | None:
    """True for ``state:ENABLED``, False for ``state:DISABLED``, None for no filter."""
    if not expression:
        return None
    states = {"state:enabled": True, "state:disabled": False}
    enabled = states.get(expression.replace(" ", "").lower())
    if enabled is None:
        raise invalid_argument(f"Invalid filter: {expression}")
    return enabled


def service(context: Context) -> Service:
    """Service Usage: which APIs a project has enabled."""
    enabled = ProjectServices(context.store, context.clock, context.strictness)
    services = ServiceHandlers(context.store, context.clock, enabled)
    return Service(
        name="serviceusage",
        version="v1",
        handlers={
            "serviceusage.services.list": services.list,
            "serviceusage.services.batchGet": services.batch_get,
            "serviceusage.services.batchEnable": services.batch_enable,
            "serviceusage.services.get": services.get,
            "serviceusage.services.enable": services.enable,
            "serviceusage.services.disable": services.disable,
            "serviceusage.operations.get": services.operation,
        },
    )
