"""The server that emulated hosts run in place of an image for TPUs, behind the hosts' own guard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from embedded_cloud.machines.image_installation import ensure_image
from embedded_cloud.machines.images import has_stand_in, installed_image
from embedded_cloud.machines.stand_in.server import ANSWER, VERSION, StandIn, served
from tpuflex.errors import EmulatorError

DIGEST = f"sha256:{'0' * 64}"
KEY = {"Authorization": "Bearer sk-key"}
CHAT = {"model": "m", "messages": []}


@pytest.mark.parametrize(
    ("image", "stood_in_for"),
    [
        (f"us-east5-docker.pkg.dev/p/dockerhub/vllm/vllm-tpu@{DIGEST}", True),
        (f"vllm/vllm-tpu@{DIGEST}", True),
        ("vllm/vllm-tpu:latest", False),
        (f"us-east5-docker.pkg.dev/p/r/my-vllm-tpu@{DIGEST}", False),
        (f"tpuflex/vllm-cpu@{DIGEST}", False),
    ],
)
def test_which_images_have_a_stand_in(tmp_path: Path, image: str, stood_in_for: bool) -> None:
    """Images of vLLM for TPUs, by digest, wherever they are mirrored; they need no installation.
    Every other one is refused as before."""
    assert has_stand_in(image) is stood_in_for
    if stood_in_for:
        assert ensure_image(image, tmp_path, print) == installed_image(image, tmp_path)
        assert list(tmp_path.iterdir()) == []
    else:
        with pytest.raises(EmulatorError, match=r"cannot run the image|not the version"):
            installed_image(image, tmp_path)


#: Method, path, headers, body, and the status that a startup script expects.
REQUESTS: list[tuple[str, str, dict[str, str], Any, int]] = [
    ("GET", "/health", {}, None, 200),
    ("GET", "/version", KEY, None, 200),
    ("GET", "/metrics", KEY, None, 200),
    ("GET", "/v1/models", KEY, None, 200),
    ("POST", "/v1/chat/completions", KEY, CHAT, 200),
    ("POST", "/v1/completions", KEY, {"model": "m", "prompt": "?"}, 200),
    ("POST", "/v1/completions", KEY, {"model": "another", "prompt": "?"}, 404),
    ("POST", "/v1/completions", KEY, [], 400),
    ("POST", "/v1/completions", KEY, None, 400),
    ("GET", "/v1/models", {}, None, 401),
    ("GET", "/v1/models", {"Authorization": "Bearer sk-other"}, None, 401),
    ("POST", "/health", KEY, None, 404),
    ("DELETE", "/sleep", KEY, None, 404),
]


def asked(*requests: tuple[str, str, dict[str, str], Any], own: bool = True) -> list[Any]:
    """Status and text of the answers of a stand-in for the model `m`."""

    async def ask() -> list[Any]:
        server = served(StandIn("m", "sk-key"), admitted=lambda _: own)
        async with TestClient(TestServer(server)) as client:
            answers = []
            for method, path, headers, body in requests:
                async with client.request(method, path, headers=headers, json=body) as answer:
                    answers.append((answer.status, await answer.text()))
            return answers

    return asyncio.run(ask())


def test_it_answers_as_the_startup_script_expects_of_vllm() -> None:
    """Every route but /health wants the key; its list of routes is complete; its version is above
    every floor and says what it is."""
    answers = asked(*(request[:4] for request in REQUESTS))
    ((_, listed), (_, version)) = asked(
        ("GET", "/openapi.json", KEY, None), ("GET", "/version", KEY, None)
    )

    assert [status for status, _ in answers] == [request[4] for request in REQUESTS]
    assert {path for _, path, _, _, status in REQUESTS if status == 200} <= set(
        json.loads(listed)["paths"]
    )
    assert json.loads(version) == {"version": VERSION}
    assert VERSION.endswith("+rehearsal")


@pytest.mark.parametrize("stream", [False, True])
def test_no_answer_can_be_taken_for_a_models(stream: bool) -> None:
    """Whatever is asked, and however, it says that no model was run."""
    ((_, text),) = asked(("POST", "/v1/chat/completions", KEY, {**CHAT, "stream": stream}))
    document = json.loads(text.removeprefix("data: ").partition("\n\n")[0])
    (choice,) = document["choices"]

    assert choice["delta" if stream else "message"]["content"] == ANSWER
    assert "rehearsal" in ANSWER
    assert text.endswith("data: [DONE]\n\n") is stream


def test_other_users_of_the_machine_get_nothing() -> None:
    """P3: not even whether it lives."""
    assert asked(("GET", "/health", {}, None), own=False) == [(403, "")]


def test_the_middleware_sees_what_the_client_sent() -> None:
    """A guard decides by method and by the path as it was sent, and closes WebSockets."""
    scopes: list[MutableMapping[str, Any]] = []

    async def watched(scope: MutableMapping[str, Any], _receive: Any, send: Any) -> None:
        scopes.append(scope)
        await send({"type": "websocket.close", "code": 1008})

    async def ask() -> list[int]:
        async with TestClient(TestServer(served(watched, admitted=lambda _: True))) as client:
            first = await client.get("/a%20b?x=1")
            second = await client.get("/v1/realtime", headers={"Upgrade": "websocket"})
            return [first.status, second.status]

    assert asyncio.run(ask()) == [403, 403]
    assert [(s["type"], s["method"], s["path"], s["raw_path"]) for s in scopes] == [
        ("http", "GET", "/a b", b"/a%20b"),
        ("websocket", "GET", "/v1/realtime", b"/v1/realtime"),
    ]
