"""What a gateway is configured with: the section of a stack file, or a file of its own."""

from __future__ import annotations

import ipaddress
import json
import shlex
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from tpuflex.errors import AccessError, Finding, NotFoundError, Position, SettingsError
from tpuflex.files.trusted import read_private, require_own
from tpuflex.settings.findings import findings_of, without_explained
from tpuflex.settings.gateway import (
    GatewaySettings,
    TlsSettings,
    UpstreamSettings,
    gateway_findings,
)
from tpuflex.settings.model import NAMESPACE
from tpuflex.settings.plain import make_plain
from tpuflex.settings.read import read_document, with_position
from tpuflex.settings.stack_yaml import join
from tpuflex.stack.stack import Stack

#: The section of a stack file.
SECTION = f"{NAMESPACE}gateway"


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """What a gateway is configured with, checked.

    Attributes:
        settings: the settings.
        source: name of the file that has them.
        files: the folder that names of files are relative to.
        stacks: the stacks behind it, by name.
        tls: certificate and key; None for none.
        options: of the command line, by which it was read, such as ``--config gateway.yaml``.
        key: that of the section; empty for a file of its own.
    """

    settings: GatewaySettings
    source: str
    files: Path
    stacks: Mapping[str, Stack]
    tls: ssl.SSLContext | None = None
    options: str = ""
    key: str = ""

    @property
    def path(self) -> Path:
        """The file that has it."""
        return self.files / self.source

    @property
    def listens_everywhere(self) -> bool:
        """Whether it listens at every address of its machine."""
        return ipaddress.ip_address(self.settings.host).is_unspecified

    def url(self, host: str, port: int | str) -> str:
        """Its URL at ``host``, without a path."""
        scheme = "https" if isinstance(self.settings.tls, TlsSettings) else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def upstreams(self) -> Mapping[str, UpstreamSettings]:
        """The upstreams by name."""
        return self.settings.behind(self.stacks)

    @property
    def routes(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The names of upstreams by model as clients call it, in pools."""
        return self.settings.routes(served_models(self.upstreams, self.stacks))


def local_address(host: str) -> str:
    """The address at which something on the gateway's machine reaches one that listens at
    ``host``."""
    address = ipaddress.ip_address(host)
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def served_models(
    upstreams: Mapping[str, UpstreamSettings], stacks: Mapping[str, Stack]
) -> dict[str, str]:
    """The model's name there, by name of the upstream."""
    return {
        name: each.model or "" if each.stack is None else stacks[each.stack].settings.model.name
        for name, each in upstreams.items()
    }


def key_file(home: Path, whose: str) -> Path:
    """Where a gateway that was started with this state directory keeps a key.

    Args:
        home: the state directory.
        whose: ``operator``: the key to its metrics and status; ``client``: that of its one client
            where none is configured.
    """
    return home / "gateway" / f"{whose}.key"


def read_section(name: str, open_stack: Callable[[str], Stack]) -> GatewayConfig:
    """The configuration in the file of a stack. Without the section, the stack is behind a gateway
    as it is by default.

    Args:
        name: the stack's name.
        open_stack: opens a stack by name.

    Raises:
        NotFoundError: there is no such stack.
        SettingsError: the file is wrong, or what it names; holds every finding.
    """
    stack = open_stack(name)
    settings = stack.settings.gateway or GatewaySettings()
    positions = read_document(stack.file).positions if stack.recorded is None else {}

    def opened(other: str) -> Stack:
        return stack if other == name else open_stack(other)

    config = GatewayConfig(
        settings,
        stack.file.name,
        stack.file.parent,
        {},
        options=f"--stack {shlex.quote(name)}",
        key=SECTION,
    )
    named = {each.stack for each in settings.upstreams.values()} or {name}
    return _checked(config, named, opened, positions)


def read_file(
    path: Path, open_stack: Callable[[str], Stack], environ: Mapping[str, str]
) -> GatewayConfig:
    """The configuration in a file of its own, whose keys are those of the section.

    Args:
        path: the file.
        open_stack: opens a stack by name.
        environ: the caller's environment.

    Raises:
        NotFoundError: there is no such file.
        AccessError: others could change it, and so have prompts sent to them.
        SettingsError: it is wrong, or what it names; holds every finding.
    """
    require_own((path,), environ)
    try:
        document = read_document(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"There is no file {path}.", hint="One is in the guide: tpuflex docs gateway"
        ) from error
    positions = {
        key: replace(position, file=path.name) for key, position in document.positions.items()
    }
    plain, findings = make_plain(document.value, "")
    findings += document.repeated
    if not isinstance(plain, dict):
        findings.append(Finding(path.name, "has no keys", "Write upstreams: to it."))
    elif wrong := next((each for each in ("config", SECTION) if each in plain), ""):
        about = "belongs into a stack file"
        findings.append(Finding(wrong, about, f"Write the keys of {SECTION} at the top level."))
    elif not findings:
        try:
            # Strict JSON, as for a stack file: "8080" is no number.
            settings = GatewaySettings.model_validate_json(json.dumps(plain), strict=True)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            findings += without_explained(findings_of(GatewaySettings, errors, ""))
        else:
            if settings.upstreams:
                named = {each.stack for each in settings.upstreams.values()}
                options = f"--config {shlex.quote(str(path))}"
                config = GatewayConfig(settings, path.name, path.parent, {}, options=options)
                return _checked(config, named, open_stack, positions)
            findings.append(Finding("upstreams", "is missing", "Write what is behind the gateway."))
    raise SettingsError(path.name, _placed(findings, positions))


def _checked(
    config: GatewayConfig,
    stacks: Iterable[str | None],
    open_stack: Callable[[str], Stack],
    positions: Mapping[str, Position],
) -> GatewayConfig:
    """``config`` with its stacks and files.

    Raises:
        SettingsError: something is wrong with it, or with what it names.
    """
    settings = config.settings
    findings = list(gateway_findings(settings, config.key))
    wrong = {each.key for each in findings}
    findings += (each for each in _file_findings(config) if each.key not in wrong)
    opened: dict[str, Stack] = {}
    for name in sorted(each for each in stacks if each is not None):
        try:
            opened[name] = open_stack(name)
        except NotFoundError as error:
            places = (n for n, each in settings.upstreams.items() if each.stack == name)
            place = join(config.key, f"upstreams.{next(places, name)}.stack")
            findings.append(Finding(place, error.message.rstrip("."), str(error.hint)))
    tls = None
    if isinstance(settings.tls, TlsSettings) and not findings:
        try:
            tls = _tls(config.files, settings.tls)
        except OSError as error:  # ssl's own errors, too
            place = join(config.key, "tls.certificate_file")
            findings.append(
                Finding(place, f"cannot be used: {error}", "Write a certificate and its key, PEM.")
            )
    if findings:
        raise SettingsError(config.source, _placed(findings, positions))
    return replace(config, stacks=opened, tls=tls)


def _placed(findings: Iterable[Finding], positions: Mapping[str, Position]) -> tuple[Finding, ...]:
    """``findings`` with where they are, in that order."""

    def line(finding: Finding) -> int:
        return finding.position.line if finding.position is not None else 0

    return tuple(sorted((with_position(each, positions) for each in findings), key=line))


def _file_findings(config: GatewayConfig) -> Iterator[Finding]:
    """Files with secrets that cannot be read, or that others can read; and an access log whose
    folder does not exist."""
    log = config.settings.access_log
    if log is not None and not (folder := (config.files / log).parent).is_dir():
        place = join(config.key, "access_log")
        yield Finding(place, f"there is no directory {folder}", "Make it, or write another file.")
    for place, name in _secret_files(config.settings):
        try:
            read_private(config.files / name)
        except AccessError as error:
            yield Finding(join(config.key, place), error.message.rstrip("."), str(error.hint))


def _secret_files(settings: GatewaySettings) -> Iterator[tuple[str, str]]:
    for name, upstream in settings.upstreams.items():
        if upstream.key_file is not None:
            yield f"upstreams.{name}.key_file", upstream.key_file
    if isinstance(settings.tls, TlsSettings):
        yield "tls.key_file", settings.tls.key_file
    if settings.budgets is not None and settings.budgets.password_file is not None:
        yield "budgets.password_file", settings.budgets.password_file


def _tls(files: Path, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # An empty passphrase: without one OpenSSL asks for it at the terminal.
    context.load_cert_chain(
        files / settings.certificate_file, files / settings.key_file, password=""
    )
    return context
