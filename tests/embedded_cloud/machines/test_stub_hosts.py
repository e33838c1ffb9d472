"""Hosts that run nothing: what clients see of them."""

from __future__ import annotations

import json
from pathlib import Path

import requests

from embedded_cloud.server import EmbeddedCloud
from reliability.control import Control
from tests.embedded_cloud.api import TOKEN, Api, eventually, flex_start
from tpuflex.host.report import host_report


def test_a_stub_host_says_ready_and_runs_nothing(tmp_path: Path) -> None:
    """The guest attributes of a host that has served, with a word that it has not; no process,
    no directory; where its server would be, everything is answered."""
    state = tmp_path / "emulator"
    with EmbeddedCloud(state, token=TOKEN, stub_hosts=True, capacity={"grant_after_s": 0}) as cloud:
        api, control = Api(cloud.url), Control(cloud.url, cloud.token)
        config = json.dumps({"serving": {"port": 8000}})
        api.create(body=flex_start(metadata={"tpuflex-config": config}))
        control.advance(60)
        eventually(lambda: bool(control.call("GET", "hosts")["hosts"]))

        answer = api.tpu("POST", "nodes/n1:getGuestAttributes", body={"queryPath": "tpuflex/"})

        items = answer.json()["guestAttributes"][0]["queryValue"]["items"]
        report = host_report({item["key"]: item["value"] for item in items})
        assert report is not None
        assert report.ready
        assert "nothing was run" in report.detail
        assert control.call("GET", "hosts")["hosts"][0]["stub"] is True
        assert not (state / "hosts").exists()
        address = api.get("nodes/n1")["networkEndpoints"][0]["ipAddress"]
        url = f"http://{address}:8000/v1/completions"
        assert requests.post(url, json={"prompt": "Hello"}, timeout=10).status_code == 200
