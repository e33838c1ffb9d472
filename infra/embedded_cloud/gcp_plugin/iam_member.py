"""One member of one role in the IAM policy of one resource, as a resource of its own."""

from __future__ import annotations

from dataclasses import dataclass

from embedded_cloud.gcp_plugin.call import CloudCall, unless_gone
from embedded_cloud.gcp_plugin.fields import Property
from embedded_cloud.gcp_plugin.policies import (
    Grant,
    PolicyCall,
    change,
    fetch,
    granted,
    revoked,
)
from embedded_cloud.gcp_plugin.properties import CONDITION, ETAG, MEMBER, ROLE
from embedded_cloud.gcp_plugin.resource_type import Identity, Made, ResourceType
from embedded_cloud.gcp_plugin.states import located
from embedded_cloud.json_types import JsonObject, child, children, text
from pulumi_plugin.values import Properties
from tpuflex.errors import ApiError


@dataclass(frozen=True, slots=True)
class IamMember:
    """Members of the policies of one kind of resource.

    Attributes:
        target: the property that names the resource.
        prefix: what precedes a bare name in its id, such as ``b/`` for a bucket; may contain
            ``{project}``.
        reading: reads the policy.
        writing: writes it.
    """

    target: str
    prefix: str
    reading: PolicyCall
    writing: PolicyCall

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Add the member to the policy."""
        values = located(row, inputs, call.settings)
        grant = _grant(values)
        resource = self._full(values)
        policy = change(
            self.reading, self.writing, resource, lambda before: granted(before, grant), call
        )
        return Made(self._id(resource, grant), self._state(row, values, resource, policy))

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state, or ``None`` when the policy does not grant this."""
        resource = self._full(made.state)
        policy = unless_gone(
            f"Error when reading or editing {row.title}",
            lambda: fetch(self.reading, resource, call),
        )
        if policy is None:
            return None
        values = _with_condition(made.state, policy)
        grant = _grant(values)
        if not grant.within(policy):
            return None
        return Made(self._id(resource, grant), self._state(row, values, resource, policy))

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Nothing of a member can be changed in place."""
        raise ApiError(f"Error updating {row.title} {made.id!r}: every change replaces it")

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Remove the member from the policy, unless the resource is gone already."""
        grant, resource = _grant(made.state), self._full(made.state)
        try:
            change(
                self.reading, self.writing, resource, lambda before: revoked(before, grant), call
            )
        except ApiError as error:
            if error.status != 404:
                raise

    def _full(self, values: Properties) -> str:
        # A bare name, "project/name" and the full form are all accepted.
        parts = text(values, self.target).split("/")
        if len(parts) > self.prefix.count("/") > 0:
            return "/".join(parts)
        project = parts[0] if len(parts) > 1 else text(values, "project")
        return self.prefix.format(project=project) + parts[-1]

    def _id(self, resource: str, grant: Grant) -> str:
        parts = [resource, grant.role, grant.member]
        if isinstance(grant.condition, dict):
            parts += [text(grant.condition, key) for key in ("title", "description", "expression")]
        return "/".join(parts)

    def _state(
        self, row: ResourceType, values: Properties, resource: str, policy: JsonObject
    ) -> Properties:
        kept: Properties = {
            item.name: values[item.name] for item in row.inputs if item.name in values
        }
        state = kept | {self.target: resource, "etag": text(policy, "etag")}
        if "{project}" in self.prefix:
            state["project"] = resource.split("/")[1]
        return state


def iam_member(token: str, target: Property, behaviour: IamMember, *more: Property) -> ResourceType:
    """The row of a type of members.

    Args:
        token: the type's token.
        target: the property that names the resource.
        behaviour: the policies.
        more: further properties.
    """
    return ResourceType(
        token=token,
        title=token.rpartition(":")[2],
        properties=(target, *more, ROLE, MEMBER, CONDITION, ETAG),
        identity=Identity(
            f"{{{target.name}}} {{role}} {{member}}",
            # The last part is the title of its condition.
            (f"{{{target.name}}} {{role}} {{member}} {{condition}}",),
        ),
        behaviour=behaviour,
    )


def _with_condition(values: Properties, policy: JsonObject) -> Properties:
    """``values``, with the condition that an id to import names by its title only."""
    title = values.get("condition")
    if not isinstance(title, str):
        return values
    for binding in children(policy, "bindings"):
        condition = child(binding, "condition")
        if text(binding, "role") == text(values, "role") and text(condition, "title") == title:
            return values | {"condition": {key: str(value) for key, value in condition.items()}}
    return values | {"condition": {"title": title}}


def _grant(values: Properties) -> Grant:
    condition: JsonObject = {key: str(value) for key, value in child(values, "condition").items()}
    return Grant(text(values, "role"), text(values, "member"), condition or None)
