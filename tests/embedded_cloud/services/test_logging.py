"""Cloud Logging: what is written is found again, by every kind of filter that is understood, and
read while it is written."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.core.clock import ManualClock, rfc3339
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api, error_of

LOG = f"projects/{PROJECT}/logs/tpuflex-boot"
RESOURCE = {"type": "generic_node", "labels": {"node_id": "n1"}}


def write(api: Api, *entries: dict[str, Any], **shared: Any) -> int:
    """Write entries of the boot log; the HTTP status."""
    body = {"logName": LOG, "resource": RESOURCE, "entries": list(entries), **shared}
    answer = api.call("POST", "v2/entries:write", body=body)
    return answer.status_code


def texts(api: Api, expression: str = "", **body: Any) -> list[str]:
    """The text of every entry that passes a filter."""
    body = {"resourceNames": [f"projects/{PROJECT}"], "filter": expression, **body}
    answer = api.call("POST", "v2/entries:list", body=body)
    assert answer.status_code == 200, answer.text
    return [entry["textPayload"] for entry in answer.json().get("entries", [])]


@pytest.fixture
def filled(api: Api, clock: ManualClock) -> Api:
    """A project with two entries, an hour apart."""
    assert write(api, {"textPayload": "config", "severity": "INFO"}, labels={"stack": "a"}) == 200
    clock.advance(3600)
    assert (
        write(api, {"textPayload": "gave up", "severity": "ERROR", "labels": {"x.y": "z"}}) == 200
    )
    return api


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("", ["config", "gave up"]),
        (f'logName="{LOG}"', ["config", "gave up"]),
        ('logName="projects/other/logs/x"', []),
        ("severity>=ERROR", ["gave up"]),
        ("severity=INFO", ["config"]),
        ('labels.stack="a"', ["config"]),
        ('labels."x.y"=z', ["gave up"]),
        ('resource.labels.node_id="n1" AND severity!=INFO', ["gave up"]),
        ('(textPayload:"GAVE") AND severity>INFO', ["gave up"]),
        ("labels.stack:*", ["config"]),
        ('severity>=INFO AND "GAVE UP"', ["gave up"]),
    ],
)
def test_filters(filled: Api, expression: str, found: list[str]) -> None:
    """A filter of comparisons joined by AND finds what Google's would."""
    assert texts(filled, expression) == found


def test_time_orders_and_bounds(filled: Api) -> None:
    """Entries come in order of time, either way, and can be bounded by it."""
    body = {"resourceNames": [f"projects/{PROJECT}"]}
    entries = filled.call("POST", "v2/entries:list", body=body).json()["entries"]
    last = entries[1]["timestamp"]
    assert texts(filled, f'timestamp>="{last}"') == ["gave up"]
    assert texts(filled, f'timestamp<"{last}"') == ["config"]
    assert texts(filled, orderBy="timestamp desc") == ["gave up", "config"]


@pytest.mark.parametrize("order", ["timestamp asc", "timestamp desc"])
def test_entries_of_one_time(api: Api, clock: ManualClock, order: str) -> None:
    """Whichever way time runs, entries of one time come in the order of their ids, also over
    pages; ids that the service gives keep the order of the request."""
    assert write(api, *({"textPayload": each} for each in "abc")) == 200
    assert texts(api, orderBy=order) == ["a", "b", "c"]
    clock.advance(60)
    assert write(api, *({"textPayload": each, "insertId": each} for each in "zyx")) == 200
    listed, token = list[str](), ""
    while True:
        body = {"resourceNames": [f"projects/{PROJECT}"], "orderBy": order, "pageSize": 2}
        page = api.call("POST", "v2/entries:list", body={**body, "pageToken": token}).json()
        listed += [entry["textPayload"] for entry in page["entries"]]
        if not (token := page.get("nextPageToken", "")):
            break
    assert listed == list("abcxyz" if order.endswith("asc") else "xyzabc")


def test_entries_are_kept_for_thirty_days(filled: Api, clock: ManualClock) -> None:
    """Thirty days after its time an entry is gone; one of a time before that is taken and not
    kept, and one of a time more than a day ahead is refused."""
    clock.advance(30 * 86_400)
    assert texts(filled) == ["gave up"]
    clock.advance(1)
    assert texts(filled) == []
    past, ahead = rfc3339(clock.now() - 30 * 86_400 - 1), rfc3339(clock.now() + 86_401)
    assert write(filled, {"textPayload": "past", "timestamp": past}) == 200
    assert write(filled, {"textPayload": "ahead", "timestamp": ahead}) == 400
    assert texts(filled) == []


@pytest.mark.parametrize(
    "expression", ["severity>=ERROR OR textPayload:x", "text", 'a="', "severity>x"]
)
def test_a_filter_that_is_not_understood_is_refused(filled: Api, expression: str) -> None:
    """No filter is ignored."""
    body = {"resourceNames": [f"projects/{PROJECT}"], "filter": expression}
    status, code, message = error_of(filled.call("POST", "v2/entries:list", body=body))
    assert (status, code) == (400, "INVALID_ARGUMENT")
    assert message.startswith("Unparseable filter")


@pytest.mark.parametrize(
    "change",
    [
        {"logName": "tpuflex-boot"},
        {"resource": {}},
        {"entries": [{}]},
        {"entries": [{"textPayload": "a", "jsonPayload": {}}]},
        {"entries": [{"textPayload": "a" * 256 * 1024}]},
        {"entries": [{"textPayload": "a", "timestamp": "yesterday"}]},
    ],
)
def test_an_entry_that_google_refuses(api: Api, change: dict[str, Any]) -> None:
    """An entry needs a full name, a resource and one payload that is not too large."""
    assert write(api, **{"entries": [{"textPayload": "a"}], **change}) == 400
    assert texts(api) == []


def test_a_host_may_write_and_not_read(cloud: EmbeddedCloud) -> None:
    """A host's service account has roles/logging.logWriter: it cannot read what others wrote."""
    host = Api(cloud.url, token=cloud.cloud.access.host_token("n1"))
    assert write(host, {"textPayload": "from the host"}) == 200
    body = {"resourceNames": [f"projects/{PROJECT}"]}
    assert host.call("POST", "v2/entries:list", body=body).status_code == 403
    assert texts(Api(cloud.url, token=TOKEN)) == ["from the host"]


def test_changes_are_written_down(api: Api, clock: ManualClock) -> None:
    """Each change that was carried out is an entry of the Admin Activity audit log, with who, what
    and which resource; what only reads, or is refused, is none, nor is a point that a host writes
    to Cloud Monitoring every minute."""
    point = {"interval": {"endTime": rfc3339(clock.now())}, "value": {"int64Value": "1"}}
    metric = {"type": "workload.googleapis.com/vllm/up"}
    series = {"metric": metric, "resource": {"type": "global"}, "points": [point]}
    written = api.call("POST", f"v3/projects/{PROJECT}/timeSeries", body={"timeSeries": [series]})
    assert written.ok
    bucket, secrets = {"name": "of-a-test"}, f"v1/projects/{PROJECT}/secrets"
    api.call("POST", "storage/v1/b", body=bucket, project=PROJECT)
    api.call("GET", "storage/v1/b/of-a-test")
    api.call("DELETE", "storage/v1/b/of-a-test")
    api.call("DELETE", "storage/v1/b/of-a-test")
    automatic: dict[str, Any] = {"replication": {"automatic": {}}}
    api.call("POST", secrets, body=automatic, secretId="key")
    api.call("POST", f"{secrets}/key:addVersion", body={"payload": {"data": "c2VjcmV0"}})
    api.call("POST", f"{secrets}/key:testIamPermissions", body={"permissions": []})
    log = f'logName="projects/{PROJECT}/logs/cloudaudit.googleapis.com%2Factivity"'
    body = {"resourceNames": [f"projects/{PROJECT}"], "filter": f'{log} AND "OF-A-TEST"'}
    assert len(api.call("POST", "v2/entries:list", body=body).json()["entries"]) == 2
    answer = api.call("POST", "v2/entries:list", body={**body, "filter": log})
    payloads = [entry["protoPayload"] for entry in answer.json()["entries"]]
    assert sorted((each["methodName"], each["resourceName"]) for each in payloads) == [
        ("secretmanager.projects.secrets.addVersion", f"projects/{PROJECT}/secrets/key"),
        ("secretmanager.projects.secrets.create", f"projects/{PROJECT}/secrets/key"),
        ("storage.buckets.delete", "projects/_/buckets/of-a-test"),
        ("storage.buckets.insert", "projects/_/buckets/of-a-test"),
    ]
    assert payloads[0]["authenticationInfo"] == {"principalEmail": "owner@example.com"}
    assert "c2VjcmV0" not in answer.text
