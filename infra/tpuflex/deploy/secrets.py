"""The endpoint's secrets in Secret Manager: created, given versions, listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.certificate import read_certificate
from tpuflex.deploy.apis import require_apis
from tpuflex.deploy.ownership import require_containers_owned, require_free_names
from tpuflex.deploy.plan import require_no_secret_replaced
from tpuflex.deploy.secret_versions import ensure_versions
from tpuflex.deploy.stack_run import SECRETS, StackRun
from tpuflex.errors import Finding, NotFoundError, PlanChangedError, SettingsError, UsageError
from tpuflex.google.existing_secret import state_of
from tpuflex.naming import MADE_SECRET_ROLES, SECRET_ROLES, TLS_CERTIFICATE
from tpuflex.settings.secrets import existing_secret_setting, version_setting
from tpuflex.stack.progress import require_consent, silent

if TYPE_CHECKING:
    from datetime import datetime

    from tpuflex.google.secrets import SecretVersion
    from tpuflex.naming import SecretRole
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Consent, Report
    from tpuflex.stack.stack import Stack


@dataclass(frozen=True, slots=True)
class AddedVersion:
    """A version that was added.

    Attributes:
        role: the role of its secret.
        version: the version.
    """

    role: SecretRole
    version: SecretVersion

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex secrets put --json`` prints."""
        return {"name": self.version.name, "version": self.version.number}


@dataclass(frozen=True, slots=True)
class Rotation:
    """What :func:`rotate_secret` would do.

    Attributes:
        role: the role of the secret.
        secret: its name in Secret Manager.
        pinned: the version that the stack file has.
        number: the version that gets a new key.
    """

    role: SecretRole
    secret: str
    pinned: int
    number: int

    def to_json(self) -> dict[str, object]:
        """The document of the plan."""
        return {
            "role": self.role,
            "secret": self.secret,
            "pinned": self.pinned,
            "adds": self.number,
            "then": f"write {version_setting(self.role)}: {self.number} below tpuflex:secrets in"
            " the stack file; the next `up` gives hosts the new key, and ends the old one",
        }


@dataclass(frozen=True, slots=True)
class ListedVersion:
    """A version of a secret.

    Attributes:
        role: the role of its secret.
        number: its number.
        state: its state; of a secret of the user's own with the place, and MISSING if it is not
            there.
    """

    role: SecretRole
    number: int
    state: str

    def to_json(self) -> dict[str, object]:
        """It in the document of ``tpuflex secrets ls --json``."""
        return {"role": self.role, "version": self.number, "state": self.state}


def ensure_secrets(cloud: Connection, report: Report = silent, *, consent: Consent) -> None:
    """Make sure that every secret version that the stack names exists.

    Args:
        cloud: the stack's cloud.
        report: is told what is made.
        consent: asked before APIs are enabled.

    Raises:
        NotFoundError: a TLS certificate, or a version of a secret of the user's own, is not there.
        AlreadyExistsError, ConflictError: as :func:`ensure_containers`.
        TpuflexError: the engine failed, or Secret Manager refused.
    """
    ensure_containers(cloud, report, consent=consent)
    ensure_versions(cloud, report)


def put_secret(
    cloud: Connection,
    role: SecretRole,
    value: str,
    report: Report = silent,
    *,
    consent: Consent,
) -> AddedVersion:
    """Add a version with ``value`` to the secret of the stack's own for ``role``.

    Args:
        cloud: the stack's cloud.
        role: what the secret is for.
        value: what is stored, as it is.
        report: receives progress.
        consent: asked before APIs are enabled.

    Raises:
        UsageError: as :func:`require_value`.
        SettingsError: the stack has no such secret of its own; or as :func:`require_value`.
        AlreadyExistsError, ConflictError: as :func:`ensure_containers`.
        TpuflexError: the engine failed, or Secret Manager refused.
    """
    require_own_secret(cloud.stack, role)
    require_value(role, value, cloud.now())
    ensure_containers(cloud, report, consent=consent)
    return AddedVersion(role, cloud.secrets.add_version(cloud.secret(role), value))


def plan_rotation(cloud: Connection, role: SecretRole) -> Rotation:
    """What :func:`rotate_secret` would do; nothing is changed.

    Raises:
        SettingsError: the stack has no such secret of its own.
        UsageError: its value is not made by tpuflex, or has the keys of several clients.
        NotFoundError: the secret, or the version that the stack file has, is not there yet.
        TpuflexError: Secret Manager refused.
    """
    require_own_secret(cloud.stack, role)
    if role not in MADE_SECRET_ROLES:
        raise UsageError(
            f"tpuflex does not make the value of {role}: `tpuflex secrets put {role}` adds it."
        )
    pinned = cloud.stack.settings.secrets.versions[role]
    secret = cloud.secret(role)
    number = max((each.number for each in cloud.secrets.list_versions(secret)), default=0) + 1
    if "\n" in cloud.secrets.access(f"{secret}/versions/{pinned}").strip():
        raise UsageError(
            f"{role} has the keys of several clients, a line each; one new key would take them all"
            f" back: `tpuflex secrets put {role}` adds a version with the lines that are to stay."
        )
    return Rotation(role, cloud.stack.names.secret(role), pinned, number)


def rotate_secret(
    cloud: Connection, role: SecretRole, *, consent: Consent, expected: int | None = None
) -> AddedVersion:
    """Add a version with a new random key to the stack's own secret for ``role``. Hosts go on with
    the old one until the stack file has the new number, and an `up` has given it to them.

    Args:
        cloud: the stack's cloud.
        role: what the secret is for.
        consent: asked before the version is added.
        expected: the number that it has to get; None for any.

    Raises:
        PlanChangedError: it would get another number; nothing was added.
        InterruptedByUser: there is no consent.
        TpuflexError: as :func:`plan_rotation`.
    """
    plan = plan_rotation(cloud, role)
    if expected not in (None, plan.number):
        raise PlanChangedError(
            f"{plan.secret} would get version {plan.number}, and {expected} was expected: somebody"
            " else has added one. Nothing was added."
        )
    require_consent(consent, f"Add version {plan.number} of {plan.secret} with a new key?")
    secret = cloud.secret(role)
    return AddedVersion(role, cloud.secrets.ensure_version(secret, plan.number))


def require_value(role: SecretRole, value: str, now: datetime) -> None:
    """Refuse a ``value`` that a secret for ``role`` cannot have, which is not in what is raised.

    Raises:
        SettingsError: a server could not use the certificate.
        UsageError: it is empty, or has characters that no key has. An API key may have several
            lines, a key on each.
    """
    if role == TLS_CERTIFICATE:
        read_certificate(value, now)
        return
    lines = value.split("\n")
    if not all(lines):
        raise UsageError("The value must have lines that are not empty.")
    if not all("!" <= letter <= "~" for line in lines for letter in line):
        raise UsageError("The value may have visible ASCII characters only, and no spaces.")


def list_secrets(cloud: Connection) -> tuple[ListedVersion, ...]:
    """The versions of the stack's secrets, never their values.

    Raises:
        TpuflexError: Secret Manager refused.
    """
    found: list[ListedVersion] = []
    existing = cloud.stack.settings.secrets.existing
    for role in SECRET_ROLES:
        if role in existing:
            state = state_of(cloud.secrets, existing[role]) or "MISSING"
            place = f"{state}, in {existing[role].secret}"
            found.append(ListedVersion(role, existing[role].number, place))
            continue
        try:
            versions = cloud.secrets.list_versions(cloud.secret(role))
        except NotFoundError:
            continue
        found += [ListedVersion(role, version.number, version.state) for version in versions]
    return tuple(found)


def ensure_containers(cloud: Connection, report: Report = silent, *, consent: Consent) -> None:
    """Make sure that the stack's secret containers exist, and are ours.

    They are Pulumi resources, so Pulumi creates them: an `up` of just these resources.

    Raises:
        AlreadyExistsError: they, or the stack's names, belong to another owner.
        ConflictError: others would be recreated with what is missing, without their values.
        TpuflexError: the engine failed.
    """
    require_apis(cloud, report, consent)
    if not cloud.stack.settings.secrets.versions:
        return
    stack_run = StackRun(cloud, report)
    require_containers_owned(cloud, stack_run)
    try:
        require_containers(cloud)
    except NotFoundError:
        plan = stack_run.preview_without_weights()
        require_no_secret_replaced(cloud.stack, plan)
        require_free_names(cloud, stack_run, plan, report)
        report("Creating the secret containers …")
        stack_run.up_part(SECRETS)
        require_containers(cloud)


def require_containers(cloud: Connection) -> None:
    """Check that the stack's secret containers are there.

    Raises:
        NotFoundError: one is not, which by the stack's state may be there.
        TpuflexError: Secret Manager refused.
    """
    if secret := cloud.missing_secret():
        raise NotFoundError(
            f"The secret {secret} is gone: by the stack's state it is there, so that it was deleted"
            " outside of tpuflex.",
            hint=Advice("`{up}` makes it again."),
        )


def require_own_secret(stack: Stack, role: SecretRole) -> None:
    """Refuse a secret that is not the stack's own: it has no container.

    Raises:
        SettingsError: the stack file pins no version of it, or it is one of the user's own.
    """
    if (existing := stack.settings.secrets.existing.get(role)) is not None:
        finding = Finding(
            f"tpuflex:secrets.{existing_secret_setting(role)}",
            f"it is {existing.version}, a secret of yours, to which tpuflex adds nothing",
            "Add the version there, and write its number here; or remove the line for a secret of"
            " the stack's own.",
        )
        raise SettingsError(stack.file.name, (finding,))
    if role not in stack.settings.secrets.versions:
        finding = Finding(
            f"tpuflex:secrets.{version_setting(role)}",
            "is not set, so the stack has no such secret",
            f"Write {version_setting(role)}: 1.",
        )
        raise SettingsError(stack.file.name, (finding,))
