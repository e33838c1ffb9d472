"""Alert policies and notification channels of all projects. No HTTP."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from embedded_cloud.clock import Clock, rfc3339
from embedded_cloud.errors import failed_precondition, not_found, unimplemented
from embedded_cloud.json_types import JsonObject, JsonValue, children, flag, text, texts
from embedded_cloud.monitoring.descriptors import Descriptors
from embedded_cloud.monitoring.errors import invalid_field
from embedded_cloud.monitoring.policy_rules import check_policy
from embedded_cloud.resourcemanager.state import OWNER
from embedded_cloud.store import Store

POLICIES = "monitoring/alertPolicies"
CHANNELS = "monitoring/notificationChannels"
#: Types of channels without a secret, with the label that each needs; others are refused.
CHANNEL_LABELS = {"email": "email_address", "sms": "number", "pubsub": "topic"}
#: What the service says, whatever is sent.
_OWN = ("name", "creationRecord", "mutationRecord", "mutationRecords", "verificationStatus")


class Alerting:
    """The alert policies and notification channels of projects, by full name."""

    def __init__(self, store: Store, clock: Clock, descriptors: Descriptors) -> None:
        self._store = store
        self._clock = clock
        self._descriptors = descriptors

    def policies(self, project: str) -> list[JsonObject]:
        """The policies of a project."""
        return [each for _, each in self._store.list(POLICIES, f"projects/{project}/")]

    def channels(self, project: str) -> list[JsonObject]:
        """The channels of a project."""
        return [each for _, each in self._store.list(CHANNELS, f"projects/{project}/")]

    def policy(self, name: str) -> JsonObject:
        """The policy with that name. Raises CloudError 404."""
        return self._require(POLICIES, name, "alert policy")

    def channel(self, name: str) -> JsonObject:
        """The channel with that name. Raises CloudError 404."""
        return self._require(CHANNELS, name, "notification channel")

    def create_policy(self, project: str, asked: JsonObject) -> JsonObject:
        """A new policy. Raises CloudError 400 or 404."""
        name = f"projects/{project}/alertPolicies/{_id()}"
        record = self._record()
        return self._put_policy(
            project, {"enabled": True, **_own_left_out(asked), "name": name}, (), record, record
        )

    def patch_policy(
        self, project: str, name: str, sent: JsonObject, mask: Iterable[str]
    ) -> JsonObject:
        """A policy with what ``mask`` names of ``sent``, or with all of it. Raises CloudError."""
        before = self.policy(name)
        after = {**_merged(before, sent, mask), "name": name}
        known = tuple(text(each, "name") for each in children(before, "conditions"))
        record: JsonValue = before["creationRecord"]
        return self._put_policy(project, after, known, record, self._record())

    def delete_policy(self, name: str) -> None:
        """Delete a policy. Raises CloudError 404."""
        self.policy(name)
        self._store.delete(POLICIES, name)

    def create_channel(self, project: str, asked: JsonObject) -> JsonObject:
        """A new channel. Raises CloudError 400."""
        name = f"projects/{project}/notificationChannels/{_id()}"
        record = self._record()
        made: JsonObject = {"enabled": True, **_own_left_out(asked), "name": name}
        return self._put_channel({**made, "creationRecord": record, "mutationRecords": [record]})

    def patch_channel(self, name: str, sent: JsonObject, mask: Iterable[str]) -> JsonObject:
        """A channel with what ``mask`` names of ``sent``, or with all of it. Raises CloudError."""
        before = self.channel(name)
        records: list[JsonValue] = [*children(before, "mutationRecords"), self._record()]
        after: JsonObject = {**_merged(before, sent, mask), "name": name}
        after["creationRecord"] = before["creationRecord"]
        return self._put_channel({**after, "mutationRecords": records})

    def delete_channel(self, project: str, name: str, *, force: bool) -> None:
        """Delete a channel; with ``force`` also one that policies use, which lose it.

        Raises:
            CloudError: 400, a policy uses it; 404, there is none.
        """
        self.channel(name)
        users = [each for each in self.policies(project) if name in _channels(each)]
        if users and not force:
            raise failed_precondition(
                f"Cannot delete notification channel {name}: it is referenced by alert policy "
                f"{text(users[0], 'name')}."
            )
        for policy in users:
            rest: list[JsonValue] = [each for each in _channels(policy) if each != name]
            self._store.put(
                POLICIES, text(policy, "name"), {**policy, "notificationChannels": rest}
            )
        self._store.delete(CHANNELS, name)

    def _put_policy(
        self,
        project: str,
        policy: JsonObject,
        known: tuple[str, ...],
        created: JsonValue,
        changed: JsonValue,
    ) -> JsonObject:
        check_policy(policy, lambda type_: self._descriptors.find(project, type_) is not None)
        for index, channel in enumerate(_channels(policy)):
            if self._store.get(CHANNELS, channel) is None:
                where = f"alert_policy.notification_channels[{index}]"
                raise invalid_field(where, channel, "The notification channel does not exist.")
        conditions: list[JsonValue] = []
        for index, condition in enumerate(children(policy, "conditions")):
            name = text(condition, "name")
            if name and name not in known:
                where = f"alert_policy.conditions[{index}].name"
                raise invalid_field(where, name, "The policy has no such condition.")
            name = name or f"{text(policy, 'name')}/conditions/{_id()}"
            conditions.append({**condition, "name": name})
        kept: JsonObject = {**policy, "conditions": conditions}
        kept |= {"creationRecord": created, "mutationRecord": changed}
        self._store.put(POLICIES, text(policy, "name"), kept)
        return kept

    def _put_channel(self, channel: JsonObject) -> JsonObject:
        type_, labels = text(channel, "type"), channel.get("labels")
        if type_ not in CHANNEL_LABELS:
            reason = f"The embedded cloud has channels of {', '.join(CHANNEL_LABELS)} only."
            raise invalid_field("notification_channel.type", type_, reason)
        wanted = CHANNEL_LABELS[type_]
        if not isinstance(labels, dict) or labels.keys() != {wanted} or not labels[wanted]:
            reason = f"A channel of type {type_} has the label {wanted} and no other."
            raise invalid_field("notification_channel.labels", labels, reason)
        self._store.put(CHANNELS, text(channel, "name"), channel)
        return channel

    def _record(self) -> JsonObject:
        return {
            "mutateTime": rfc3339(self._clock.now()),
            "mutatedBy": OWNER.partition(":")[2],
        }

    def _require(self, collection: str, name: str, kind: str) -> JsonObject:
        found = self._store.get(collection, name)
        if found is None:
            raise not_found(f"Cannot find {kind} {name}.")
        return found


def _id() -> str:
    """Ids are numbers of about twenty digits."""
    return str(10**18 + secrets.randbelow(9 * 10**18))


def _own_left_out(asked: JsonObject) -> JsonObject:
    return {key: value for key, value in asked.items() if key not in _OWN}


def _channels(policy: JsonObject) -> list[str]:
    return texts(policy, "notificationChannels")


def _merged(before: JsonObject, sent: JsonObject, mask: Iterable[str]) -> JsonObject:
    """``before`` with the fields of ``sent`` that ``mask`` names; all of ``sent`` without a mask.

    Raises CloudError 501 for a part of a field.
    """
    fields = [_camel(path) for path in mask]
    if any("." in path for path in fields):
        raise unimplemented("an update_mask that names a part of a field")
    changes = _own_left_out(sent)
    if not fields:
        return {"enabled": flag(before, "enabled"), **changes}
    kept = {key: value for key, value in before.items() if key not in fields}
    return {**kept, **{key: value for key, value in changes.items() if key in fields}}


def _camel(path: str) -> str:
    """gcloud names fields as the protocol buffers do."""
    first, *rest = path.split("_")
    return first + "".join(part.capitalize() for part in rest)
