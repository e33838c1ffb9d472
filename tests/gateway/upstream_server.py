"""An OpenAI server on loopback whose answers a test writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext

from aiohttp import web

KEY, MODEL = "sk-upstream", "org/model"
COMPLETED = json.dumps(
    {"choices": [{"text": "!", "finish_reason": "length"}], "usage": {"completion_tokens": 1}}
)


def metrics(kv_use: float = 0.0, waiting: int = 0, tokens: int = 0) -> str:
    """What vLLM says, of two engines."""
    labels = '{engine="0",model_name="org/model"}'
    return (
        "# HELP vllm:kv_cache_usage_perc KV-cache usage.\n"
        f"vllm:num_requests_waiting{labels} {waiting - waiting // 2}.0\n"
        f"vllm:num_requests_waiting{labels.replace('0', '1')} {waiting // 2}.0\n"
        f'vllm:num_requests_waiting_by_reason{{reason="capacity"}} {waiting + 7}.0\n'
        f"vllm:generation_tokens_total{labels} {tokens}.0\n"
        f"vllm:kv_cache_usage_perc{labels} 0.01\n"
        f"vllm:kv_cache_usage_perc{labels.replace('0', '1')} {kv_use}\n"
    )


#: It does not answer.
NEVER = -1
#: It answers with this, and says that it is compressed.
COMPRESSED = "compressed"


@dataclass
class UpstreamServer:
    """What it answers, and what it was asked.

    Attributes:
        answers: path -> the texts that it answers with, the last one for good; a number is a
            status, and :data:`NEVER` no answer.
        key: what a request must have; empty for none.
        asked: each request's path, in order.
        documents: the JSON documents that were posted, in order.
        url: its base URL while it runs.
        stop: stops it before its time.
    """

    answers: dict[str, list[str | int]] = field(
        default_factory=lambda: {
            "/v1/completions": [COMPLETED],
            "/v1/models": [json.dumps({"data": [{"id": MODEL, "max_model_len": 512}]})],
            "/metrics": [metrics()],
        }
    )
    key: str = KEY
    asked: list[str] = field(default_factory=list)
    documents: list[dict[str, object]] = field(default_factory=list)
    url: str = ""
    stop: Callable[[], Awaitable[None]] = field(init=False)

    @asynccontextmanager
    async def running(
        self, tls: SSLContext | None = None, address: str = "127.0.0.1", port: int = 0
    ) -> AsyncIterator[UpstreamServer]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        self.stop = runner.cleanup
        site = web.TCPSite(runner, address, port, ssl_context=tls)
        await site.start()
        self.url = f"http{'s' if tls else ''}://{address}:{runner.addresses[0][1]}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if request.method == "POST":
            self.documents.append(await request.json())
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return web.Response(status=401)
        texts = self.answers.get(request.path, [404])
        text = texts.pop(0) if len(texts) > 1 else texts[0]
        if text == NEVER:
            await asyncio.Event().wait()
        if isinstance(text, int):
            return web.Response(status=text, headers={"Location": "/v1/models"})
        if text == COMPRESSED:
            return web.Response(text=text, headers={"Content-Encoding": "gzip"})
        return web.Response(text=text)
