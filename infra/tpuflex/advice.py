"""Advice: text in which our own commands stand as fields, so that it can be about any stack.

``Advice("`{up}` waits again, `{weights_push} {folder}` fills it.", folder=path)`` is shown as
`tpuflex up` waits again …; about the stack ``big`` as `tpuflex up --stack big` waits again …
Text without such a command stays a plain string. Pure.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from tpuflex.naming import DEFAULT_STACK, unnamed_stack

#: The commands about one stack, by their fields. None is for what is about all stacks (`--all`),
#: or names its stack itself.
COMMANDS: Mapping[str, str] = {
    words.replace(" ", "_"): f"tpuflex {words}"
    for words in (
        *("up", "down", "preview", "recover", "sweep", "doctor"),
        *("status", "logs", "events", "diagnose", "metrics", "memory", "ask", "client", "verify"),
        *("ssh", "tunnel", "restart", "reboot"),
        *("weights hash", "weights ls", "weights push", "weights rm", "weights verify"),
        *("secrets ensure", "secrets ls", "secrets put"),
        *("library up", "library status", "library down"),
        *("bench run", "bench ramp"),
        "gateway status",
    )
}
#: What does the same to a stack that a program of the user's own deploys.
_PULUMI_COMMANDS: Mapping[str, str] = {
    "up": "pulumi up",
    "down": "pulumi destroy",
    "preview": "pulumi preview",
}


class Advice:
    """Text with commands about a stack, which is known where the text is shown.

    Args:
        template: a format string; ``{weights_push}`` is the command `tpuflex weights push`.
        values: its other fields, which may be advice themselves.
    """

    __slots__ = ("_template", "_values")

    def __init__(self, template: str, /, **values: object) -> None:
        self._template = template
        self._values = values

    @classmethod
    def of(cls, text: Advice | str) -> Advice:
        """``text`` as advice; a string is about no stack."""
        return text if isinstance(text, Advice) else cls("{text}", text=text)

    @classmethod
    def lines(cls, *parts: Advice | str) -> Advice:
        """Those of ``parts`` that are not empty, each on a line."""
        present = {f"part{at}": part for at, part in enumerate(parts) if part}
        return cls("\n".join(f"{{{name}}}" for name in present), **present)

    def sentence(self) -> Advice:
        """It, to stand by itself."""
        template = f"{self._template[:1].upper()}{self._template[1:]}."
        return type(self)(template, **self._values)

    def __str__(self) -> str:
        """As it is shown where no stack has to be named."""
        return self._shown("")

    def __bool__(self) -> bool:
        return bool(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Advice) and self._shown("\0") == other._shown("\0")

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"Advice({str(self)!r})"

    def for_stack(
        self, stack: str, environ: Mapping[str, str] | None = None, *, own_program: bool = False
    ) -> str:
        """The text about ``stack``.

        Typed without it, `tpuflex down` works on the default stack, or on that of
        ``$TPUFLEX_STACK``: where that names another one, ``dev`` is named, too.

        Args:
            stack: the stack that its commands are about; empty for none.
            environ: the environment that they are typed in. None where that is not known, as in a
                document or a notification: there the stack is always named.
            own_program: whether a program of the user's own deploys it, and so Pulumi's commands.
        """
        if own_program:
            return self._shown(f" --stack {shlex.quote(stack)}", _PULUMI_COMMANDS)
        typed = environ is not None and stack == DEFAULT_STACK == unnamed_stack(environ)
        if typed or not stack:
            return str(self)
        return self._shown(f" --stack {shlex.quote(stack)}")

    def _shown(self, option: str, other: Mapping[str, str] | None = None) -> str:
        values = {
            name: value._shown(option, other) if isinstance(value, Advice) else value
            for name, value in self._values.items()
        }
        known = {**COMMANDS, **(other or {})}
        commands = {name: command + option for name, command in known.items()}
        return self._template.format_map(commands | values)
