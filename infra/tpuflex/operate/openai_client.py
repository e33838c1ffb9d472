"""What a program needs to call a running endpoint, and a command that is run with it.

The API key goes to the command in its environment alone: every user of the machine can read the
words of a command line.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from requests.utils import DEFAULT_CA_BUNDLE_PATH

from tpuflex.advice import Advice
from tpuflex.boot.certificate import read_certificate
from tpuflex.errors import NotFoundError, UsageError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.naming import API_KEY, TLS_CERTIFICATE
from tpuflex.operate.endpoint_connection import (
    api_key,
    connected,
    not_there,
    probe,
    secret_value,
    serving_slice,
    why_a_tunnel,
)
from tpuflex.operate.iap_tunnel import await_own_port
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

#: Variables by which clients are sent through a proxy.
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
#: Variables that list the hosts that are reached without one; programs read either.
_NO_PROXIES = ("NO_PROXY", "no_proxy")
#: Variables that name the authorities to trust instead of the usual ones: for Python's ssl and
#: OpenSSL, for requests, and for curl.
_AUTHORITIES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
#: For Node, which adds them to its own.
_MORE_AUTHORITIES = "NODE_EXTRA_CA_CERTS"
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
#: What a signal adds to its number in the exit code of a shell.
_ENDED_BY_SIGNAL = 128

_NOT_READY = Advice("It does not serve now: `{status}` says why.")
_TUNNEL_FIRST = Advice(
    "keep `{tunnel}` running in another terminal, or let `{client} -- COMMAND` open a tunnel"
)


@dataclass(frozen=True, slots=True)
class Client:
    """What a client needs.

    Attributes:
        stack: name of the stack.
        url: the endpoint's base URL from here, which ends in ``/v1``; of a tunnel's local end where
            there has to be one.
        model: name of the served model.
        key_version: resource name of the API key in Secret Manager.
        key: the API key; empty if it was not asked for.
        certificates: a file with the authorities that are trusted otherwise and the stack's
            certificate; None for an endpoint without TLS.
        remarks: what keeps a client from being served, each with its remedy.
    """

    stack: str
    url: str
    model: str
    key_version: str
    key: str = field(default="", repr=False)
    certificates: Path | None = None
    remarks: tuple[Advice, ...] = ()

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that OpenAI's libraries and others read, in the order of their use.

        Args:
            environ: the client's environment; a proxy in it is not sent the key.
        """
        found = {"OPENAI_BASE_URL": self.url, "OPENAI_MODEL": self.model}
        if self.key:
            found["OPENAI_API_KEY"] = self.key
        if self.certificates is not None:
            names = (*_AUTHORITIES, _MORE_AUTHORITIES)
            found |= dict.fromkeys(names, str(self.certificates))
        if any(map(environ.get, _PROXIES)):
            before = ",".join(environ.get(name, "") for name in _NO_PROXIES).split(",")
            hosts = filter(None, (*map(str.strip, before), urlsplit(self.url).hostname))
            distinct = dict.fromkeys(hosts)
            # "*" is all hosts where it stands alone, and else none.
            found |= dict.fromkeys(_NO_PROXIES, "*" if "*" in distinct else ",".join(distinct))
        return found

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex client --json`` prints."""
        return {
            "stack": self.stack,
            "base_url": self.url,
            "model": self.model,
            "api_key": self.key or None,
            "api_key_version": self.key_version,
            "certificates": None if self.certificates is None else str(self.certificates),
            "remarks": list(map(str, self.remarks)),
        }


def client(cloud: Connection, *, show_key: bool = False, tunnel: bool = True) -> Client:
    """What a client of the endpoint of the stack of ``cloud`` needs.

    Args:
        cloud: the stack's cloud.
        show_key: whether the API key is read.
        tunnel: whether a private endpoint is called through `tpuflex tunnel`.

    Raises:
        NotFoundError: the stack is not up, or its host has no address yet; or the key is asked for
            and there is no tunnel that it could be sent through.
        AccessError: the key or the certificate may not be read; or the key would be sent to another
            user of this machine.
    """
    status = serving_slice(cloud)
    why = why_a_tunnel(cloud, status.address) if tunnel else ""
    url = cloud.stack.settings.url("127.0.0.1" if why else status.address)
    if why and show_key:
        _require_own_tunnel(url)
    found = _client(cloud, url, api_key(cloud) if show_key else "", cloud.environ)
    remarks = [] if status.ready else [_NOT_READY]
    if why:
        remarks.append(Advice("{why}: {first}.", why=why, first=_TUNNEL_FIRST))
    return replace(found, remarks=(*remarks, *found.remarks))


def run_client(
    cloud: Connection,
    words: Sequence[str],
    environ: Mapping[str, str],
    report: Report = silent,
    *,
    tunnel: bool = True,
) -> int:
    """Run a command that calls the endpoint of the stack of ``cloud``, on the terminal of this
    process, with what it needs in its environment. A private endpoint is reached through a tunnel,
    which ends with the command.

    Ctrl-C reaches the command, and other signals that end a process are passed on to it. Call it in
    the main thread.

    Args:
        cloud: the stack's cloud.
        words: the command.
        environ: the environment that it would have otherwise.
        report: receives why a tunnel is opened.
        tunnel: whether a tunnel may be opened.

    Returns:
        The command's exit code; of one that a signal ended, what a shell would say.

    Raises:
        UsageError: there is no such command.
        NotFoundError: the stack is not up, or its host does not serve.
        BootError: its server does not answer.
        TpuflexError: the key or the certificate may not be read, or no tunnel can be opened.
    """
    program = shutil.which(words[0], path=environ.get("PATH"))
    if program is None:
        raise UsageError(f"There is no command {words[0]!r} that can be run.")
    status = serving_slice(cloud)
    if not status.ready:
        raise not_there(cloud, status, "nothing that serves")
    key = api_key(cloud)
    with connected(cloud, status, report, tunnel=tunnel) as found:
        if (problem := probe(cloud, found).ask(lambda: key).problem) is not None:
            raise problem
        needed = _client(cloud, found.url, key, environ)
        for remark in needed.remarks:
            report(f"warning: {remark}")
        return run_command([program, *words[1:]], {**environ, **needed.variables(environ)})


def _require_own_tunnel(url: str) -> None:
    """Refuse to give the API key to a client of ``url``, where a tunnel should listen and any user
    of this machine can. Over TLS, a client sends it to the holder of the certificate alone."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.port is None:
        return
    if not await_own_port(parts.port, lambda: True):
        raise NotFoundError(
            f"The API key is not shown: nothing listens at {url}, where any user of this machine"
            " could, and be sent the key.",
            hint=_TUNNEL_FIRST.sentence(),
        )


def _client(cloud: Connection, url: str, key: str, environ: Mapping[str, str]) -> Client:
    """What a client at ``url`` needs whose environment is ``environ`` otherwise."""
    stack = cloud.stack
    certificates, remarks = None, tuple[Advice, ...]()
    if TLS_CERTIFICATE in stack.settings.secrets.roles:
        pem = secret_value(cloud, TLS_CERTIFICATE)
        names = read_certificate(pem, datetime.now(UTC)).names
        trusted = [*_authorities(environ), *_CERTIFICATE.findall(pem)]  # without the stack's key
        certificates = stack.own_files / "clients" / f"{stack.name}.pem"
        own_directory(certificates.parent)
        # A shell may have this very file from the last time.
        write_private(certificates, "\n".join((*dict.fromkeys(trusted), "")))
        if (host := urlsplit(url).hostname) not in names:
            refused = Advice(
                "The stack's certificate names {names}, not {host}: most clients refuse it there."
                " Put one that names {host}, too.",
                names=" and ".join(names) or "nothing",
                host=host,
            )
            remarks = (refused,)
    version = cloud.secret_version(API_KEY)
    return Client(stack.name, url, stack.settings.model.name, version, key, certificates, remarks)


def _authorities(environ: Mapping[str, str]) -> Iterator[str]:
    """The certificates that programs with ``environ`` trust: behind a proxy that looks into TLS,
    those are a company's own.

    Raises:
        UsageError: a variable names what is no file of text.
    """
    instead = [name for name in _AUTHORITIES if environ.get(name)][:1]
    if not instead:
        yield from _CERTIFICATE.findall(Path(DEFAULT_CA_BUNDLE_PATH).read_text("utf-8"))
    for name in (*instead, _MORE_AUTHORITIES):
        if file := environ.get(name):
            try:
                yield from _CERTIFICATE.findall(Path(file).read_text("utf-8", "replace"))
            except OSError as error:
                raise UsageError(
                    f"{name} names {file}, which cannot be read ({error.strerror}): write the path"
                    " of a file of certificates, to which the stack's is added."
                ) from error


def run_command(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run ``words`` to their end, whatever signal comes meanwhile; returns the exit code that a
    shell would say."""
    process: subprocess.Popen[bytes] | None = None
    early = list[int]()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        # A terminal sends Ctrl-C to all processes in its foreground.
        elif number != signal.SIGINT or not _in_foreground():
            process.send_signal(number)

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, pass_on) for number in ends}
    try:
        process = subprocess.Popen(words, env=environ)
        for number in early:
            process.send_signal(number)
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else _ENDED_BY_SIGNAL - code


def _in_foreground() -> bool:
    """Whether this process is in the foreground of a terminal."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
