"""What a bootstrap finds in the cloud: what an earlier one has left, and the bucket with states."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tpuflex.components.bootstrap_names import STATE_COPY, BootstrapNames
from tpuflex.errors import EngineError, NotFoundError, ServiceDisabledError
from tpuflex.google.bucket_owner import may_read_buckets, require_own_bucket
from tpuflex.google.storage_client import storage_bucket

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

#: Objects of Pulumi's backend that are states of stacks.
_STATES = ".pulumi/stacks/"


@dataclass(frozen=True, slots=True)
class Remains:
    """What an earlier bootstrap has left.

    Attributes:
        adopted: ids of what is there, by logical name.
        restorable: ids of what is deleted and keeps its name: it is restored.
    """

    adopted: Mapping[str, str] = field(default_factory=dict)
    restorable: Mapping[str, str] = field(default_factory=dict)


def remains(cloud: Connection, names: BootstrapNames, known: Iterable[str]) -> Remains:
    """What is there of a bootstrap, and not ``known`` (ids) to the state: Google never deletes a
    key ring or a key, and keeps the name of a deleted pool for 30 days.

    Raises:
        AccessError, ApiError: it cannot be told.
    """
    clients = cloud.apis()
    candidates = {
        "key-ring": (clients.cloudkms, names.key_ring),
        "key": (clients.cloudkms, names.key),
        "pool": (clients.iam, names.pool),
        "provider": (clients.iam, names.provider),
    }
    adopted: dict[str, str] = {}
    restorable: dict[str, str] = {}
    have = frozenset(known)
    for logical, (api, id_) in candidates.items():
        if id_ in have:
            continue
        try:
            found = api.call("GET", f"/v1/{id_}")
        except (NotFoundError, ServiceDisabledError):
            continue
        (restorable if found.get("state") == "DELETED" else adopted)[logical] = id_
    return Remains(adopted, restorable)


def restore(cloud: Connection, found: Remains) -> Mapping[str, str]:
    """Restore what is deleted, and give the ids of all that is there now, by logical name.

    Raises:
        AccessError, ApiError: Google refuses.
    """
    for id_ in found.restorable.values():
        cloud.apis().iam.call("POST", f"/v1/{id_}:undelete", body={})
    return {**found.adopted, **found.restorable}


@dataclass(frozen=True, slots=True)
class StateBucket:
    """The bucket that a bootstrap makes, and what is kept in it.

    Attributes:
        cloud: the cloud.
        names: the names.
    """

    cloud: Connection
    names: BootstrapNames

    def exists(self) -> bool:
        """Whether it is there, and in our project.

        Raises:
            AlreadyExistsError: it is in somebody else's.
            AccessError, ApiError: it cannot be told.
        """
        cloud = self.cloud
        try:
            return require_own_bucket(
                cloud.apis().storage,
                self.names.bucket,
                self.names.project,
                lambda: cloud.project_number,
                lambda: may_read_buckets(cloud.apis().resourcemanager, self.names.project),
            )
        except ServiceDisabledError:
            return False

    def states(self) -> tuple[str, ...]:
        """The stacks of which it holds a state, as ``PROJECT/STACK``."""
        found = (blob.name for blob in self._bucket().list_blobs(prefix=_STATES))
        return tuple(
            sorted(
                name.removeprefix(_STATES).removesuffix(".json")
                for name in found
                if name.endswith(".json")
            )
        )

    def read(self) -> dict[str, Any]:
        """The bootstrap's own state as it was kept here; empty if there is none.

        Raises:
            EngineError: it is damaged.
        """
        blob = self._bucket().get_blob(STATE_COPY)
        if blob is None:
            return {}
        try:
            document = json.loads(blob.download_as_bytes())
            return dict(document["deployment"])
        except (ValueError, KeyError, TypeError) as error:
            raise EngineError(
                f"gs://{self.names.bucket}/{STATE_COPY} is damaged: it is no state.",
                hint="An older version of the object is kept: list all versions of"
                f" gs://{self.names.bucket}/{STATE_COPY}",
            ) from error

    def keep(self, deployment: Mapping[str, Any]) -> None:
        """Keep the bootstrap's own state here, for other machines."""
        text = json.dumps({"version": 3, "deployment": deployment})
        blob = self._bucket().blob(STATE_COPY)
        blob.upload_from_string(text, content_type="application/json")

    def empty(self) -> None:
        """Delete every version of every object."""
        for blob in self._bucket().list_blobs(versions=True):
            blob.delete()

    def _bucket(self) -> Any:
        cloud = self.cloud
        return storage_bucket(self.names.bucket, project=self.names.project, environ=cloud.environ)
