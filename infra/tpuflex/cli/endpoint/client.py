"""How `tpuflex client` shows what programs need to call an endpoint.

The texts read the key from the environment: no command line has it, and none needs an edit where
the endpoint moves.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tpuflex.advice import Advice

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.operate.openai_client import Client

#: `printf` is a builtin of shells, so that the key is no word of a process.
_CURL = """\
printf 'Authorization: Bearer %s' "$OPENAI_API_KEY" |
  curl -sS "$OPENAI_BASE_URL/chat/completions" --header @- \\
    --header 'Content-Type: application/json' \\
    --data {body}"""
_BODY = """\
{{"model": {model},
  "messages": [{{"role": "user",
    "content": "In one sentence, what is the capital of France?"}}],
  "max_tokens": 256, "temperature": 0}}"""
_PYTHON = """\
from openai import OpenAI  # pip install openai

client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
question = "In one sentence, what is the capital of France?"
answer = client.chat.completions.create(
    model={model},
    messages=[{{"role": "user", "content": question}}],
    max_tokens=256,
    temperature=0,
)
print(answer.choices[0].message.content)"""
_TYPESCRIPT = """\
import OpenAI from "openai"; // npm install openai

const client = new OpenAI(); // reads OPENAI_BASE_URL and OPENAI_API_KEY
const question = "In one sentence, what is the capital of France?";
const answer = await client.chat.completions.create({{
  model: {model},
  messages: [{{ role: "user", content: question }}],
  max_tokens: 256,
  temperature: 0,
}});
console.log(answer.choices[0].message.content);"""
#: In place of the key.
_ASK_FOR_THE_KEY = Advice("# OPENAI_API_KEY is set by: {client} --as env --show-key")


def _env(client: Client, invocation: Invocation) -> str:
    variables = client.variables(invocation.environ)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    if not client.key:
        lines.append(_ASK_FOR_THE_KEY.for_stack(client.stack, invocation.environ))
    return "\n".join(lines)


def _curl(client: Client, _invocation: Invocation) -> str:
    return _CURL.format(body=shlex.quote(_BODY.format(model=json.dumps(client.model))))


def _python(client: Client, _invocation: Invocation) -> str:
    return _PYTHON.format(model=json.dumps(client.model))


def _typescript(client: Client, _invocation: Invocation) -> str:
    return _TYPESCRIPT.format(model=json.dumps(client.model))


_TEXTS: Mapping[str, Callable[[Client, Invocation], str]] = {
    "env": _env,
    "curl": _curl,
    "python": _python,
    "typescript": _typescript,
}
#: The values of ``--as``.
FORMS = tuple(_TEXTS)


def show_client(invocation: Invocation, client: Client, form: str | None) -> None:
    """Print one form of what ``client`` has, or all as a page."""
    output, environ = invocation.output, invocation.environ
    remarks = [remark.for_stack(client.stack, environ) for remark in client.remarks]
    output.document(client.to_json())
    if form or output.json:
        for remark in remarks:
            output.progress(f"warning: {remark}")
    if form:
        output.verbatim(_TEXTS[form](client, invocation))
        return
    output.heading(f"Endpoint of stack {client.stack}")
    output.facts(
        (
            ("base URL", client.url),
            ("model", client.model),
            ("API key", client.key_version),
            ("authorities", "" if client.certificates is None else str(client.certificates)),
            ("note", "\n".join(remarks)),
        )
    )
    line = Advice("{client} -- python hello.py")
    _section(invocation, "A command with these", line.for_stack(client.stack, environ))
    line = Advice('eval "$({client} --as env --show-key)"')
    _section(invocation, "A shell with these", line.for_stack(client.stack, environ))
    for heading, name in (("curl", "curl"), ("hello.py", "python"), ("hello.mts", "typescript")):
        _section(invocation, heading, _TEXTS[name](client, invocation))


def _section(invocation: Invocation, heading: str, text: str) -> None:
    invocation.output.result()
    invocation.output.heading(heading)
    invocation.output.verbatim(text)
