"""What an alert policy may be.

https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.alertPolicies. Conditions on
metrics are checked; queries in MQL, PromQL and SQL are kept as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.clock import parse_duration
from embedded_cloud.errors import CloudError, invalid_argument, not_found
from embedded_cloud.json_types import JsonObject, child, children, text
from embedded_cloud.monitoring.descriptors import OWN_PREFIXES
from embedded_cloud.monitoring.errors import invalid_field
from embedded_cloud.monitoring.filters import Filter

_MOST_CONDITIONS = 6
_MINUTE_S = 60.0
_SHORTEST_ABSENCE_S = 120.0
_ON_METRICS = ("conditionThreshold", "conditionAbsent")
#: Where one of these is, there is no other condition.
_ALONE = ("conditionMatchedLog", "conditionMonitoringQueryLanguage", "conditionSql")
_CASES = (*_ON_METRICS, *_ALONE, "conditionPrometheusQueryLanguage")

#: Whether a metric of one's own is there.
Known = Callable[[str], bool]


def check_policy(policy: JsonObject, known: Known) -> None:
    """Raises CloudError 400 for what a policy may not be, 404 for a metric that is not there."""
    conditions = children(policy, "conditions")
    if not text(policy, "displayName"):
        raise invalid_field("alert_policy.display_name", "", "must not be empty.")
    if not 1 <= len(conditions) <= _MOST_CONDITIONS:
        reason = f"A policy must have from one to {_MOST_CONDITIONS} conditions."
        raise invalid_field("alert_policy.conditions", len(conditions), reason)
    if text(policy, "combiner", "COMBINE_UNSPECIFIED") == "COMBINE_UNSPECIFIED":
        reason = "The combiner must be specified."
        raise invalid_field("alert_policy.combiner", "COMBINE_UNSPECIFIED", reason)
    for index, condition in enumerate(conditions):
        _check_condition(condition, f"alert_policy.conditions[{index}]", known)
        if len(conditions) > 1 and any(case in condition for case in _ALONE):
            what = "log matching" if "conditionMatchedLog" in condition else "query"
            raise invalid_argument(
                f"Alert policies with a {what} condition can only have a single condition."
            )
    limit = child(child(policy, "alertStrategy"), "notificationRateLimit")
    if "conditionMatchedLog" in conditions[0] and not limit:
        reason = "must be set where a condition matches logs."
        raise invalid_field("alert_policy.alert_strategy.notification_rate_limit", "", reason)


def _check_condition(condition: JsonObject, where: str, known: Known) -> None:
    cases = [case for case in _CASES if case in condition]
    if len(cases) != 1:
        reason = (
            'Condition subtype (e.g. "condition_absent", "condition_threshold", etc.) is absent or '
            "unknown."
        )
        raise invalid_field(f"{where}.condition_case", len(cases), reason)
    if not text(condition, "displayName"):
        raise invalid_field(f"{where}.display_name", "", "must not be empty.")
    if cases[0] not in _ON_METRICS:
        return
    of = child(condition, cases[0])
    threshold = cases[0] == "conditionThreshold"
    path = f"{where}.condition_{'threshold' if threshold else 'absent'}"
    _check_filter(text(of, "filter"), f"{path}.filter", known)
    _check_duration(of, path, 0.0 if threshold else _SHORTEST_ABSENCE_S)
    if threshold and text(of, "comparison") not in ("COMPARISON_GT", "COMPARISON_LT"):
        reason = "only COMPARISON_GT and COMPARISON_LT are supported."
        raise invalid_field(f"{path}.comparison", text(of, "comparison"), reason)
    for index, aggregation in enumerate(children(of, "aggregations")):
        if _seconds(aggregation, "alignmentPeriod") < _MINUTE_S:
            reason = "The alignment period must be at least 60 seconds."
            at = f"{path}.aggregations[{index}].alignment_period"
            raise invalid_field(at, text(aggregation, "alignmentPeriod"), reason)


def _check_filter(expression: str, where: str, known: Known) -> None:
    wanted = Filter.parse(expression, where)
    for field in ("metric.type", "resource.type"):
        if not wanted.on(field):
            raise _unrestricted(where, expression, field)
    type_ = wanted.on("metric.type")[0].values[0]
    if type_.startswith(OWN_PREFIXES) and not known(type_):
        raise not_found(
            f'Cannot find metric that matches type = "{type_}". If a metric was created recently, '
            "it could take up to 10 minutes to become available. Please try again soon."
        )


def _unrestricted(where: str, expression: str, field: str) -> CloudError:
    reason = f'must specify a restriction on "{field}" in the filter'
    if field == "resource.type":
        page = "https://cloud.google.com/monitoring/api/resources"
        reason += f'; see "{page}" for a list of available resource types'
    return invalid_field(where, expression, f"{reason}.")


def _check_duration(of: JsonObject, path: str, least: float) -> None:
    seconds = _seconds(of, "duration")
    if seconds % _MINUTE_S or seconds < least:
        reason = f"must be a multiple of a minute, and at least {least:.0f} s."
        raise invalid_field(f"{path}.duration", text(of, "duration"), reason)


def _seconds(of: JsonObject, key: str) -> float:
    """A duration, whose form the contract has checked."""
    return parse_duration(text(of, key, "0s"))
