"""A real Prometheus that collects from the real vLLM, by the file that `tpuflex alerts` prints."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
import requests
import yaml

from tests.alerts.test_rules import settings
from tests.embedded_cloud.api import eventually
from tests.security.vllm_host import METRICS_KEY, VllmHost, boot, image_is_installed
from tests.startup.cloud import API_KEY
from tpuflex.alerts.grafana import dashboard
from tpuflex.alerts.prometheus import prometheus_text
from tpuflex.alerts.rules import alert_rules

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
    pytest.mark.skipif(
        PROMETHEUS is None, reason="Prometheus is not installed: `apt-get install prometheus`"
    ),
]
STACK, JOB = "prod", "tpuflex-prod"
#: Shorter than the default, so that the test is.
RULES = alert_rules(settings(waiting_for="10s"))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmHost]:
    """A host that serves at most eight requests at once."""
    found = boot(tmp_path_factory.mktemp("vllm"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def prometheus(host: VllmHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Prometheus that is set up as the rule file's head says."""
    directory = tmp_path_factory.mktemp("prometheus")
    text = prometheus_text(RULES, STACK, JOB, f"http://127.0.0.1:{host.port}/v1")
    head = "\n".join(line[2:] for line in text.splitlines() if line.startswith("#   "))
    config: dict[str, Any] = yaml.safe_load(head)
    (job,) = config["scrape_configs"]
    key = directory / "key"
    key.touch(mode=0o600)
    key.write_text(METRICS_KEY)
    job |= {"scrape_interval": "2s", "authorization": {"credentials_file": str(key)}}
    (directory / "rules.yml").write_text(text)
    (directory / "prometheus.yml").write_text(
        yaml.safe_dump(config | {"rule_files": ["rules.yml"]})
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = [
        str(PROMETHEUS),
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(
            arguments, stdout=log, stderr=log, env={"PATH": os.defpath, "HOME": str(directory)}
        ) as process,
    ):
        try:
            eventually(lambda: is_ready(f"http://{address}"), within=60)
            assert METRICS_KEY not in " ".join(psutil.Process(process.pid).cmdline())
            yield f"http://{address}"
        finally:
            process.terminate()


def is_ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).ok
    except requests.RequestException:
        return False


def asked(url: str, path: str, **parameters: str) -> dict[str, Any]:
    """The data that Prometheus answers with."""
    answer = requests.get(f"{url}/api/v1/{path}", params=parameters, timeout=30).json()
    assert answer["status"] == "success", answer
    data: dict[str, Any] = answer["data"]
    return data


def firing(url: str) -> set[str]:
    return {
        each["labels"]["alertname"]
        for each in asked(url, "alerts")["alerts"]
        if each["state"] == "firing"
    }


@contextmanager
def more_than_it_serves(host: VllmHost) -> Iterator[None]:
    """Sixteen clients that ask one question after the other."""
    done = threading.Event()

    def ask() -> None:
        body = {"model": "tiny", "prompt": "The sea", "max_tokens": 120, "ignore_eos": True}
        while not done.is_set():
            requests.post(
                f"http://127.0.0.1:{host.port}/v1/completions",
                json=body,
                headers={"Authorization": f"Bearer {API_KEY}"},
                timeout=600,
            )

    clients = [threading.Thread(target=ask) for _ in range(16)]
    for each in clients:
        each.start()
    try:
        yield
    finally:
        done.set()
        for each in clients:
            each.join()


def test_an_alert_fires_and_clears(prometheus: str, host: VllmHost) -> None:
    """Prometheus collects with the key that may read metrics alone; the alert about waiting
    requests fires while they wait, with what to type next, and clears when they are answered."""
    up = f'up{{job="{JOB}"}} == 1'
    eventually(lambda: bool(asked(prometheus, "query", query=up)["result"]))
    assert firing(prometheus) == set()

    with more_than_it_serves(host):
        eventually(lambda: "RequestsWaiting" in firing(prometheus), within=180)
        (alert,) = (
            each
            for each in asked(prometheus, "alerts")["alerts"]
            if each["labels"]["alertname"] == "RequestsWaiting"
        )
        assert alert["labels"]["severity"] == "ticket"
        assert "tpuflex metrics --stack prod" in alert["annotations"]["next"]
    eventually(lambda: "RequestsWaiting" not in firing(prometheus), within=120)


def test_every_query_of_the_dashboard_is_answered(prometheus: str) -> None:
    """Prometheus takes each of them, and has something to say to each after some load, but for
    alerts: none need fire."""
    panels = dashboard(RULES, STACK, JOB)["panels"]
    assert isinstance(panels, list)
    queries = {target["expr"]: panel["title"] for panel in panels for target in panel["targets"]}
    empty = {
        title
        for query, title in queries.items()
        if not asked(prometheus, "query", query=query)["result"]
    }

    assert len(queries) > 20
    assert empty <= {"Alerts"}
