"""Alert policies and notification channels of Cloud Monitoring v3. Nothing evaluates a policy here.

Answers as recorded in GoogleCloudPlatform/k8s-config-connector,
``mockgcp/mockmonitoring/testdata``; limits from https://cloud.google.com/monitoring/quotas and the
discovery document; the words of refusals from the threads that are named beside them.
"""

from __future__ import annotations

import hashlib
import re

from embedded_cloud.core.clock import Clock, parse_duration, rfc3339
from embedded_cloud.core.errors import CloudError, invalid_argument, not_found, unimplemented
from embedded_cloud.core.json_types import (
    JsonObject,
    child,
    children,
    flag,
    string_map,
    text,
    texts,
)
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import named
from embedded_cloud.core.routing import Call, Handler, Reply
from embedded_cloud.core.store import Store
from embedded_cloud.services.monitoring.time_series import TimeSeries, no_metric

_POLICIES = "monitoring/alertPolicies"
_CHANNELS = "monitoring/notificationChannels"
_COUNTERS = "_monitoring/counters"

_PAGING = Paging(default=1000, maximum=1000)

#: Fields of a policy that a caller sets and ``updateMask`` may name.
_SETTABLE = (
    "alertStrategy",
    "combiner",
    "conditions",
    "displayName",
    "documentation",
    "enabled",
    "notificationChannels",
    "severity",
    "userLabels",
)
_MOST_CONDITIONS = 6
_MOST_CHANNELS = 16
_MOST_LABELS = 64
_MOST_DOCUMENTED = 8192
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_CHANNEL = re.compile(r"projects/[^/]+/notificationChannels/[^/]+")
_INTERVAL_S = 30
_DAY_S = 86_400
_WORD = re.compile(r"[^a-zA-Z0-9_]")
#: A metric of Google's in PromQL.
_METRIC = re.compile(r"\b[a-z][a-z0-9_]*_googleapis_com:[a-zA-Z0-9_:]+")


def _invalid(field: str, value: object, why: str) -> CloudError:
    """400: a field's value is not allowed."""
    return invalid_argument(f'Field {field} had an invalid value of "{value}": {why}')


class Alerting:
    """The policies and channels of all projects, and the handlers of both."""

    def __init__(self, store: Store, clock: Clock, series: TimeSeries) -> None:
        self._store = store
        self._series = series
        self._clock = clock

    def handlers(self) -> dict[str, Handler]:
        """Method id -> handler."""
        policies = "monitoring.projects.alertPolicies"
        channels = "monitoring.projects.notificationChannels"
        return {
            f"{policies}.create": self.create_policy,
            f"{policies}.list": self.list_policies,
            f"{policies}.get": self.get_policy,
            f"{policies}.patch": self.patch_policy,
            f"{policies}.delete": self.delete_policy,
            f"{channels}.create": self.create_channel,
            f"{channels}.get": self.get_channel,
        }

    def create_policy(self, call: Call) -> Reply:
        """POST …/alertPolicies: Google chooses the name."""
        project = named(call.params["project"], self._store)
        asked = {key: value for key, value in (call.body or {}).items() if key in _SETTABLE}
        name = f"projects/{project}/alertPolicies/{self._next(project)}"
        record = self._record()
        policy: JsonObject = {
            "enabled": True,
            **self._checked(project, name, asked),
            "name": name,
            "creationRecord": record,
            "mutationRecord": record,
        }
        self._store.put(_POLICIES, name, policy)
        return Reply(body=policy)

    def list_policies(self, call: Call) -> Reply:
        """GET …/alertPolicies."""
        for parameter in ("filter", "orderBy"):
            if call.query.get(parameter):
                raise unimplemented(f"{call.method_id} with {parameter}")
        prefix = f"projects/{named(call.params['project'], self._store)}/"
        found = [each for _, each in self._store.list(_POLICIES, prefix)]
        head: JsonObject = {"totalSize": len(found)} if found else {}
        return _PAGING.resources(call, "alertPolicies", found, head=head)

    def get_policy(self, call: Call) -> Reply:
        """GET …/alertPolicies/{alertPolicy}."""
        return Reply(body=self._policy(call))

    def patch_policy(self, call: Call) -> Reply:
        """PATCH of one: what updateMask names changes; without a mask, everything."""
        before, body = self._policy(call), call.body or {}
        mask = [path for path in call.query.get("updateMask", "").split(",") if path]
        fields = mask or [*_SETTABLE]
        if unknown := [path for path in fields if path not in _SETTABLE]:
            raise unimplemented(f"{call.method_id} with updateMask={unknown[0]}")
        asked: JsonObject = {key: value for key, value in before.items() if key not in fields}
        asked |= {key: body[key] for key in fields if key in body}
        project, name = text(before, "name").split("/")[1], text(before, "name")
        policy: JsonObject = {
            "enabled": True,
            **self._checked(project, name, asked),
            "mutationRecord": self._record(),
        }
        self._store.put(_POLICIES, name, policy)
        return Reply(body=policy)

    def delete_policy(self, call: Call) -> Reply:
        """DELETE of one."""
        self._store.delete(_POLICIES, text(self._policy(call), "name"))
        return Reply(body={})

    def create_channel(self, call: Call) -> Reply:
        """POST …/notificationChannels."""
        project = named(call.params["project"], self._store)
        record = self._record()
        channel: JsonObject = {
            "enabled": True,
            **(call.body or {}),
            "name": f"projects/{project}/notificationChannels/{self._next(project)}",
            "creationRecord": record,
            "mutationRecords": [record],
        }
        self._store.put(_CHANNELS, text(channel, "name"), channel)
        return Reply(body=channel)

    def get_channel(self, call: Call) -> Reply:
        """GET …/notificationChannels/{notificationChannel}."""
        return Reply(body=self._channel(self._name(call)))

    def _name(self, call: Call) -> str:
        """The full name of what a call is about, with the project's id."""
        project = named(call.params["project"], self._store)
        return f"projects/{project}/{call.path.split('/')[-2]}/{call.id}"

    def _policy(self, call: Call) -> JsonObject:
        policy = self._store.get(_POLICIES, self._name(call))
        if policy is None:
            raise not_found("Requested entity was not found.")
        return policy

    def _channel(self, name: str) -> JsonObject:
        channel = self._store.get(_CHANNELS, name)
        if channel is None:
            # hashicorp/terraform-provider-google#25878
            raise not_found("Notification channel not found.")
        return channel

    def _next(self, project: str) -> str:
        """The number of what is made next in a project; Google's are as long."""
        count = self._store.next_number(_COUNTERS, project)
        digest = hashlib.sha256(f"{project} {count}".encode()).digest()
        return str(10**18 + int.from_bytes(digest[:8]) % (9 * 10**18))

    def _record(self) -> JsonObject:
        return {"mutateTime": rfc3339(self._clock.now())}

    def _checked(self, project: str, name: str, asked: JsonObject) -> JsonObject:
        """``asked`` of the policy ``name``, with names for its new conditions.

        Raises:
            CloudError: 400, a value is not allowed; 404, a channel or metric does not exist.
        """
        conditions = children(asked, "conditions")
        if not 1 <= len(conditions) <= _MOST_CONDITIONS:
            why = f"A policy must have between 1 and {_MOST_CONDITIONS} conditions."
            raise _invalid("alert_policy.conditions", len(conditions), why)
        _check_labels(string_map(asked, "userLabels"))
        content = text(child(asked, "documentation"), "content")
        if len(content) > _MOST_DOCUMENTED:
            why = f"must be at most {_MOST_DOCUMENTED} characters long."
            raise _invalid("alert_policy.documentation.content", f"{content[:20]}…", why)
        self._check_channels(texts(asked, "notificationChannels"))
        made = [
            self._condition(project, name, index, condition)
            for index, condition in enumerate(conditions)
        ]
        return {**asked, "conditions": [*made]}

    def _check_channels(self, channels: list[str]) -> None:
        if len(channels) > _MOST_CHANNELS:
            why = f"at most {_MOST_CHANNELS} channels are allowed."
            raise _invalid("alert_policy.notification_channels", len(channels), why)
        for channel in channels:
            if not _CHANNEL.fullmatch(channel):
                # crossplane-contrib/provider-upjet-gcp#498
                raise invalid_argument(
                    "Name must begin with 'projects/{project_id}/notificationChannels/{channel_id}'"
                    f", got: {channel}"
                )
            self._channel(channel)

    def _condition(self, project: str, name: str, index: int, condition: JsonObject) -> JsonObject:
        field = f"alert_policy.conditions[{index}]"
        kinds = [key for key in condition if key.startswith("condition")]
        if kinds != ["conditionPrometheusQueryLanguage"]:
            raise unimplemented(f"alert policies with {', '.join(kinds) or 'no condition'}")
        self._check_query(
            project,
            f"{field}.condition_prometheus_query_language",
            child(condition, "conditionPrometheusQueryLanguage"),
        )
        kept = text(condition, "name")
        return {**condition, "name": kept or f"{name}/conditions/{self._next(project)}"}

    def _check_query(self, project: str, field: str, query: JsonObject) -> None:
        interval = text(query, "evaluationInterval", f"{_INTERVAL_S}s")
        if parse_duration(interval) <= 0 or parse_duration(interval) % _INTERVAL_S:
            why = f"must be a positive multiple of {_INTERVAL_S} seconds."
            raise _invalid(f"{field}.evaluation_interval", interval, why)
        duration = text(query, "duration", "0s")
        if parse_duration(duration) < 0:
            raise _invalid(f"{field}.duration", duration, "must not be negative.")
        if parse_duration(duration) > _DAY_S:
            raise _invalid(f"{field}.duration", duration, "must be at most a day.")
        if flag(query, "disableMetricValidation"):
            return
        there = self._metrics(project)
        for metric in sorted(set(_METRIC.findall(text(query, "query")))):
            if metric not in there:
                raise no_metric(metric)

    def _metrics(self, project: str) -> set[str]:
        """The names in PromQL of the metrics that the project has
        (https://cloud.google.com/monitoring/promql/promql-mapping)."""
        types = (each.partition("/") for each in self._series.metrics(project))
        return {f"{_WORD.sub('_', head)}:{_WORD.sub('_', rest)}" for head, _, rest in types}


def _check_labels(labels: dict[str, str]) -> None:
    if len(labels) > _MOST_LABELS:
        why = f"at most {_MOST_LABELS} labels are allowed."
        raise _invalid("alert_policy.user_labels", len(labels), why)
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            why = "lower-case letters, numerals, underscores and dashes, at most 63."
            raise _invalid(f"alert_policy.user_labels[{key}]", value, why)
