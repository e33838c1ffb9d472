"""The OS Login methods that are emulated, the same in all its versions."""

from __future__ import annotations

from embedded_cloud.json_types import text
from embedded_cloud.oslogin.state import LoginProfiles
from embedded_cloud.routing import Call, Context, Handler, Reply, Service

#: gcloud's alpha track calls v1alpha (its `api_lib/oslogin/client.py`).
VERSIONS = ("v1", "v1beta", "v1alpha")


def services(context: Context) -> tuple[Service, ...]:
    """OS Login in all its versions, over one state."""
    profiles = LoginProfiles(context.store)

    def get(call: Call) -> Reply:
        """``users.getLoginProfile``."""
        return Reply(body=profiles.get(call.id))

    def import_key(call: Call) -> Reply:
        """``users.importSshPublicKey``."""
        project = call.query.get("projectId", "")
        profile = profiles.import_key(call.id, project, text(call.body or {}, "key"))
        return Reply(body={"loginProfile": profile})

    handlers: dict[str, Handler] = {
        "oslogin.users.getLoginProfile": get,
        "oslogin.users.importSshPublicKey": import_key,
    }
    return tuple(Service("oslogin", version, handlers) for version in VERSIONS)
