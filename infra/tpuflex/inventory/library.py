"""The buckets of a library of weights as the cloud has them, and who may read from them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.errors import AlreadyExistsError
from tpuflex.google.apis import Apis
from tpuflex.google.bucket_owner import OWN_BUCKET
from tpuflex.google.paging import entries, objects
from tpuflex.google.project import account_of, deleted_account
from tpuflex.inventory.cloud_resource import CloudResource, described
from tpuflex.inventory.kinds import BUCKET, SECRET, Kind
from tpuflex.inventory.listing import Listing, list_kind
from tpuflex.naming import library_names

if TYPE_CHECKING:
    from tpuflex.google.transport import JsonObject

#: Title of the condition on which an endpoint's hosts may read.
READER_TITLE = "tpuflex_weights_only"
#: Title of the condition on which they may read and add compiled programs of their own.
PROGRAMS_TITLE = "tpuflex_programs_only"
#: Roles on a bucket by which no object can be read.
_READS_NOTHING = re.compile(r"roles/storage\.(objectCreator|legacyBucket\w+)")
_BUCKET = r"'projects/_/buckets/[^/']+"
#: Alone, or beside the bucket itself, whose objects are then listed.
_BELOW = re.compile(
    rf"(?:resource\.name == {_BUCKET}' \|\| )?"
    rf"resource\.name\.startsWith\({_BUCKET}/objects/([^']+)/'\)"
)


def reader_title(owner: str) -> str:
    """As :data:`READER_TITLE`, for hosts whose service account other endpoints may use, too.

    IAM merges bindings of one role whose conditions are equal. With this title each endpoint has a
    binding of its own, and its teardown leaves those of the others.

    Args:
        owner: the endpoint's owner marker.
    """
    return f"{READER_TITLE}_{owner}"


def programs_title(owner: str) -> str:
    """Title of the conditions on which an endpoint's hosts keep compiled programs in a library.

    Args:
        owner: the endpoint's owner marker.
    """
    return f"{PROGRAMS_TITLE}_{owner}"


def prefix_condition(bucket: str, prefix: str) -> str:
    """The condition that an object is below ``prefix`` (without a slash at the end; empty for every
    object)
    (https://cloud.google.com/iam/docs/conditions-attribute-reference#resource-name)."""
    where = f"{prefix}/" if prefix else ""
    return f"resource.name.startsWith('projects/_/buckets/{bucket}/objects/{where}')"


def listed_and_below(bucket: str, prefix: str) -> str:
    """The condition that an object is below ``prefix``, or that it is the bucket that is asked,
    as where objects are listed: by their names, also those of others."""
    return f"resource.name == 'projects/_/buckets/{bucket}' || {prefix_condition(bucket, prefix)}"


@dataclass(frozen=True, slots=True)
class Reader:
    """A member who may read objects of a bucket, by the bucket's own policy.

    Attributes:
        member: who, as a policy spells it.
        role: by which role.
        where: the prefix below which; empty for all objects; the condition itself if it says
            something else.
        endpoint: whether these are the hosts of an endpoint, by the title of the condition.
        owner: the endpoint's owner marker, if the title names one.
        plain: whether ``where`` is a prefix, or empty.
    """

    member: str
    role: str
    where: str
    endpoint: bool
    owner: str = ""
    plain: bool = True

    def to_json(self) -> dict[str, object]:
        """It in the documents of ``--json``."""
        return {
            "member": self.member,
            "role": self.role,
            "below": self.where or None,
            "endpoint": self.endpoint,
        }


def readers(policy: JsonObject) -> tuple[Reader, ...]:
    """Who may read objects by the ``policy`` of a bucket. Roles on the project come on top."""
    return tuple(_readers(policy))


def _readers(policy: JsonObject) -> Iterator[Reader]:
    marked = re.compile(rf"{READER_TITLE}|(?:{READER_TITLE}|{PROGRAMS_TITLE})_(.+)")
    for binding in objects(policy, "bindings"):
        role = str(binding.get("role"))
        if _READS_NOTHING.fullmatch(role):
            continue
        condition = binding.get("condition")
        said = condition if isinstance(condition, dict) else {}
        expression = str(said.get("expression") or "")
        prefix = _BELOW.fullmatch(expression)
        for member in map(str, entries(binding, "members")):
            ours = marked.fullmatch(str(said.get("title")))
            endpoint = ours is not None and bool(account_of(member))
            yield Reader(
                member,
                role,
                prefix[1] if prefix else expression,
                endpoint and not deleted_account(member),
                (ours[1] or "") if ours is not None and endpoint else "",
                plain=prefix is not None or not expression,
            )


def bucket_readers(apis: Apis, bucket: str) -> tuple[Reader, ...]:
    """Who may read objects of ``bucket``.

    Raises:
        NotFoundError: there is no such bucket.
        AccessError, ApiError: its policy cannot be read.
    """
    query = {"optionsRequestedPolicyVersion": "3"}  # the first that shows conditions
    return readers(apis.storage.call("GET", f"{BUCKET.root}{bucket}/iam", query=query))


def list_library(apis: Apis, project: str, kind: Kind = BUCKET) -> Listing:
    """The buckets of the library of ``project``, or what else it has of ``kind``: with its owner
    marker, whichever state has made them. What could not be listed is in ``unlisted``."""
    owner = library_names(project).owner
    found = list_kind(apis, kind, project)
    ours = tuple(each for each in found.resources if each.marker.owner == owner)
    return Listing(ours, found.unlisted, found.unlisted_kinds, found.refused)


def read_library_bucket(apis: Apis, name: str, project: str) -> CloudResource:
    """The bucket ``name``, which is one of the library of ``project``.

    Raises:
        NotFoundError: there is no such bucket.
        AlreadyExistsError: there is, and it is no library's.
        AccessError, ApiError: it cannot be determined.
    """
    answer = apis.storage.call("GET", f"{BUCKET.root}{name}")
    found = described(BUCKET, answer, place="", id_=name)
    if found.marker.owner != library_names(project).owner:
        raise _unmarked(f"bucket gs://{name}", project, OWN_BUCKET)
    return found


def read_library_secret(apis: Apis, secret: str, project: str) -> CloudResource:
    """The secret ``secret`` (``projects/P/secrets/S``), which is one of the library of ``project``.

    Raises:
        NotFoundError: there is no such secret.
        AlreadyExistsError: another owner has made it, and may know its value.
        AccessError, ApiError: it cannot be determined.
    """
    answer = apis.secretmanager.call("GET", f"{SECRET.root}{secret}")
    found = described(SECRET, answer, place="", id_=secret)
    if found.marker.owner != library_names(project).owner:
        hint = Advice(
            "They may know its value. Find out who it was and delete it; then: {library_up}"
        )
        raise _unmarked(f"secret {secret}", project, hint)
    return found


def _unmarked(what: str, project: str, hint: Advice | str) -> AlreadyExistsError:
    return AlreadyExistsError(
        f"The {what} does not carry the marker of the library of {project}: it was made by somebody"
        " else. Nothing was sent.",
        status=409,
        hint=hint,
    )
