"""What the machine's account is granted: to write below one prefix of the bucket, or only to add
to it, and to read one version of one secret, or below one prefix of a bucket. Given on a condition,
and taken away at the end.

https://cloud.google.com/iam/docs/conditions-overview
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import JsonValue

from tpuflex.errors import AccessError, AlreadyExistsError, ApiError, ConflictError, NotFoundError
from tpuflex.gcp.brought_secret import this_version
from tpuflex.gcp.library import COPY_TITLE, below
from tpuflex.gcp.listing import Apis
from tpuflex.gcp.paging import entries, objects
from tpuflex.gcp.project_policy import account_of
from tpuflex.gcp.transport import JsonObject
from tpuflex.settings.bucket import BUCKET_NAME
from tpuflex.settings.secrets import brought_secret

#: Conditions need version 3.
_VERSION = 3
#: Somebody else may change a policy in between; and an account that was just made may not be known
#: for a minute (https://cloud.google.com/iam/docs/service-accounts-create).
_ATTEMPTS = 7

Pause = Callable[[float], object]


@dataclass(frozen=True, slots=True)
class IamResource:
    """What has a policy of its own.

    Attributes:
        kind: ``bucket`` or ``secret``.
        name: the bucket's name, or the secret's resource name.
    """

    kind: Literal["bucket", "secret"]
    name: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Grant:
    """Roles on one resource.

    Attributes:
        resource: the resource.
        roles: the roles.
        title: title of their condition.
        expression: the condition.
    """

    resource: IamResource
    roles: tuple[str, ...]
    title: str
    expression: str


def bucket_grant(bucket: str, prefix: str, *, create_only: bool = False) -> Grant:
    """Reads, writes and replaces what is below ``prefix``, and sees nothing else; with
    ``create_only`` it reads and adds, and replaces and deletes nothing
    (https://cloud.google.com/storage/docs/access-control/iam-roles)."""
    adds = ("roles/storage.objectCreator", "roles/storage.objectViewer")
    roles = adds if create_only else ("roles/storage.objectUser",)
    return Grant(IamResource("bucket", bucket), roles, COPY_TITLE, below(bucket, prefix))


def source_grant(bucket: str, prefix: str) -> Grant:
    """Reads what is below ``prefix`` (empty for all of the bucket), and lists nothing."""
    roles = ("roles/storage.objectViewer",)
    return Grant(IamResource("bucket", bucket), roles, COPY_TITLE, below(bucket, prefix))


def secret_grant(secret: str, number: int, project_number: str) -> Grant:
    """Reads version ``number`` of ``secret`` (``projects/P/secrets/S``), whose project has this
    number."""
    numbered = f"projects/{project_number}/secrets/{secret.rpartition('/')[2]}"
    return Grant(
        IamResource("secret", secret),
        ("roles/secretmanager.secretAccessor",),
        COPY_TITLE,
        this_version(numbered, number),
    )


def named_in(job: str) -> Iterator[IamResource]:
    """What the job in a machine's metadata names, where the account may have been let in. Who may
    write metadata can put anything there, so each part is taken for itself, and only what is the
    name of a bucket or of a version."""
    try:
        document = json.loads(job)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    for part in (document, document.get("origin")):
        if isinstance(part, dict):
            yield from _named(part.get("bucket"), part.get("token_version"))


def _named(bucket: object, version: object) -> Iterator[IamResource]:
    if isinstance(bucket, str) and BUCKET_NAME.fullmatch(bucket):
        yield IamResource("bucket", bucket)
    with suppress(ValueError):
        if isinstance(version, str):
            yield IamResource("secret", brought_secret(version).secret)


def give(grants: Iterable[Grant], email: str, apis: Apis, pause: Pause) -> None:
    """Make sure that ``email`` has ``grants``, and nothing else where they are. Those on one
    resource are given in one write.

    Raises:
        AccessError, ApiError: they cannot be granted.
    """
    by_resource: dict[IamResource, list[Grant]] = {}
    for grant in grants:
        by_resource.setdefault(grant.resource, []).append(grant)
    for resource, on_it in by_resource.items():
        _change(resource, partial(_granted, on_it, email), apis, pause)


def _granted(grants: Iterable[Grant], email: str, policy: JsonObject) -> JsonObject:
    made: list[JsonValue] = [
        {
            "role": role,
            "members": [f"serviceAccount:{email}"],
            "condition": {"title": grant.title, "expression": grant.expression},
        }
        for grant in grants
        for role in grant.roles
    ]
    return {**policy, "bindings": [*_without(policy, email), *made]}


def revoke(resource: IamResource, email: str, apis: Apis, pause: Pause) -> None:
    """Make sure that ``email`` has no role on ``resource``, also where the account was deleted;
    none that is not there any more.

    Raises:
        AccessError, ApiError: it cannot be taken away.
    """

    def revoked(policy: JsonObject) -> JsonObject:
        return {**policy, "bindings": [*_without(policy, email)]}

    with suppress(NotFoundError):
        _change(resource, revoked, apis, pause)


def has_roles(resource: IamResource, email: str, apis: Apis) -> bool:
    """Whether ``email`` has a role on ``resource``, the account deleted or not.

    Raises:
        AccessError, ApiError, NotFoundError: the policy cannot be read.
    """
    policy = _read(resource, apis)
    listed = (entries(each, "members") for each in objects(policy, "bindings"))
    return any(account_of(str(member)) == email for members in listed for member in members)


def _change(
    resource: IamResource, change: Callable[[JsonObject], JsonObject], apis: Apis, pause: Pause
) -> None:
    """Read the policy, change it, write it with its etag; once more if somebody else has."""
    for attempt in range(_ATTEMPTS):
        policy = _read(resource, apis)
        wanted = change(policy)
        if _bindings(wanted) == _bindings(policy):
            return
        try:
            _write(resource, {**wanted, "version": _VERSION}, apis)
            return
        except ApiError as error:
            concurrent = isinstance(error, ConflictError | AlreadyExistsError)
            # An account that is not known yet is a 400 here, and nothing else is.
            unknown = error.status == 400 and "does not exist" in error.message
            if "permitted customer" in error.message:
                raise AccessError(
                    f"{resource} lets nobody of this organisation in: {error.message}",
                    hint="Its own organisation allows only its members"
                    " (constraints/iam.allowedPolicyMemberDomains). Push from here instead:"
                    " tpuflex weights push",
                ) from error
            if attempt == _ATTEMPTS - 1 or not (concurrent or error.status == 412 or unknown):
                raise
            pause(2.0**attempt)


def _read(resource: IamResource, apis: Apis) -> JsonObject:
    if resource.kind == "bucket":
        query = {"optionsRequestedPolicyVersion": str(_VERSION)}
        return apis.storage.call("GET", f"/storage/v1/b/{resource.name}/iam", query=query)
    query = {"options.requestedPolicyVersion": str(_VERSION)}
    return apis.secretmanager.call("GET", f"/v1/{resource.name}:getIamPolicy", query=query)


def _write(resource: IamResource, policy: JsonObject, apis: Apis) -> None:
    if resource.kind == "bucket":
        apis.storage.call("PUT", f"/storage/v1/b/{resource.name}/iam", body=policy)
    else:
        path = f"/v1/{resource.name}:setIamPolicy"
        apis.secretmanager.call("POST", path, body={"policy": policy})


def _bindings(policy: JsonObject) -> list[JsonValue]:
    """The bindings, as far as they say something."""
    return [
        [binding.get("role"), entries(binding, "members"), _condition(binding)]
        for binding in objects(policy, "bindings")
    ]


def _condition(binding: JsonObject) -> JsonValue:
    condition = binding.get("condition")
    found = condition if isinstance(condition, dict) else {}
    return [found.get("title"), found.get("expression")]


def _without(policy: JsonObject, email: str) -> Iterator[JsonValue]:
    """The bindings of ``policy`` without the account, deleted or not."""
    for binding in objects(policy, "bindings"):
        members = entries(binding, "members")
        left = [member for member in members if account_of(str(member)) != email]
        if left:
            yield {**binding, "members": left}
