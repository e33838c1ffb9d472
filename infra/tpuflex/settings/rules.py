"""Rules across fields. Pure: settings in, findings out.

``check`` returns what makes a deployment impossible or unsafe; ``warnings`` returns what is
likely wrong, but for the user to decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.catalog.catalog import Catalog
from tpuflex.errors import Finding
from tpuflex.gcloud_commands import show_project
from tpuflex.naming import HOST_SECRET_ROLES
from tpuflex.settings.gateway import gateway_findings
from tpuflex.settings.memory_rules import memory_findings, memory_warnings
from tpuflex.settings.model import (
    PLACEHOLDER_PROJECT,
    Draft,
    ModelSettings,
    StackSettings,
)
from tpuflex.settings.monitoring import monitoring_findings
from tpuflex.settings.network_rules import network_findings, network_warnings, region_findings
from tpuflex.settings.secrets import SecretsSettings, existing_secret_setting, version_setting
from tpuflex.settings.serving_rules import serving_findings, serving_warnings
from tpuflex.settings.slice import slice_findings, slice_warnings


def check(settings: StackSettings) -> tuple[Finding, ...]:
    """Everything that forbids deploying ``settings``."""
    return check_draft(Draft.of(settings))


def check_draft(draft: Draft, *, planned: bool = True) -> tuple[Finding, ...]:
    """Everything that forbids deploying, in the sections of ``draft`` that could be read.

    Args:
        draft: the sections.
        planned: whether its memory is planned, or is so later.
    """
    return tuple(_all_findings(draft, planned=planned))


def warnings(settings: StackSettings) -> tuple[Finding, ...]:
    """What may be wrong with ``settings`` but does not forbid deploying."""
    return tuple(_all_warnings(settings))


def _all_findings(draft: Draft, *, planned: bool) -> Iterator[Finding]:
    if draft.cloud == "google" and draft.project == PLACEHOLDER_PROJECT:
        yield Finding(
            "tpuflex:project",
            f"{PLACEHOLDER_PROJECT} is a placeholder",
            f"Write your Google Cloud project id (`{show_project()}` shows it).",
        )
    if draft.slice is not None:
        yield from slice_findings(draft.slice, draft.catalog)
    if draft.model is not None:
        yield from _bucket(draft.model)
    yield from _code(draft)
    yield from region_findings(draft)
    yield from network_findings(draft)
    yield from identity_findings(draft)
    if draft.secrets is not None:
        yield from secret_findings(draft.secrets)
        yield from programs_key_findings(draft)
    yield from encryption_findings(draft)
    if draft.monitoring is not None:
        longest_run = None if draft.slice is None else draft.slice.max_run_duration
        yield from monitoring_findings(draft.monitoring, longest_run)
    if draft.gateway is not None:
        yield from gateway_findings(draft.gateway, "tpuflex:gateway")
    yield from label_findings(draft)
    serving = tuple(serving_findings(draft))
    yield from serving
    # What is wrong by itself cannot be planned: one finding about it is enough.
    wrong = {finding.key for finding in serving}
    if planned:
        yield from (finding for finding in memory_findings(draft) if finding.key not in wrong)


def _code(draft: Draft) -> Iterator[Finding]:
    """Code of the model that is to run, and is not among its files."""
    if draft.serving is None or not draft.serving.flags.trust_remote_code or draft.model is None:
        return
    if not any(each.endswith((".py", "*")) for each in draft.model.weights.extra_files):
        yield Finding(
            "tpuflex:serving.flags.trust_remote_code",
            "true, but no Python file of the model is served: only data formats are, and what"
            " tpuflex:model.weights.extra_files names",
            'Remove it, or name the code there, such as ["configuration_*.py", "modeling_*.py"].',
        )


def _bucket(model: ModelSettings) -> Iterator[Finding]:
    if not model.weights.manage_grants and model.weights.existing is None:
        yield Finding(
            "tpuflex:model.weights.manage_grants",
            f"it would have no effect: the bucket is {model.weights.bucket}, none of yours",
            "Remove it, or write gs://BUCKET/PREFIX to tpuflex:model.weights.bucket.",
        )


def _bucket_warnings(settings: StackSettings) -> Iterator[Finding]:
    weights = settings.model.weights
    if not weights.manage_grants and settings.identity.existing is None:
        yield Finding(
            "tpuflex:model.weights.manage_grants",
            "the hosts' account is made by `up`, so nobody can have let it read the bucket before",
            "Name an account of yours in tpuflex:identity.service_account, or let the stack grant"
            " it.",
        )


def _all_warnings(settings: StackSettings) -> Iterator[Finding]:
    row = settings.catalog.accelerator(settings.slice.accelerator_type)
    for index, zone in enumerate(settings.slice.zones):
        if row is not None:
            key = f"tpuflex:slice.zones[{index}]"
            yield from _zone_warning(settings.catalog, key, zone, row.generation)
    yield from slice_warnings(settings.slice)
    yield from network_warnings(settings)
    yield from identity_warnings(settings)
    yield from secret_warnings(settings)
    yield from encryption_warnings(settings)
    yield from _bucket_warnings(settings)
    yield from serving_warnings(Draft.of(settings))
    if settings.serving.flags.trust_remote_code:
        yield Finding(
            "tpuflex:serving.flags.trust_remote_code",
            "code that comes with the model will run on the host",
            "Remove it unless the model cannot be loaded without it.",
        )
    yield from memory_warnings(settings)


def _zone_warning(catalog: Catalog, key: str, zone: str, generation: str) -> Iterator[Finding]:
    accepting = ", ".join(catalog.accepting_zones(generation)) or "none"
    row = catalog.zone(zone, generation)
    if row is None:
        nearest = catalog.nearest_zones(zone)
        hint = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
        yield Finding(
            key,
            f"{zone} is not in the table of zones with {generation} chips",
            f"It is tried all the same.{hint} Known to accept Flex-start {generation}: "
            f"{accepting}.",
        )
    elif row.flex_start in ("refused", "hardware"):
        what = (
            f"refused Flex-start {generation} when it was last tried"
            if row.flex_start == "refused"
            else f"has {generation} chips, but Flex-start was not tried there"
        )
        yield Finding(
            key,
            f"{zone} {what} ({row.source.date.isoformat()})",
            f"It is tried all the same. Known to accept it: {accepting}.",
        )


_IDENTITY = "tpuflex:identity"


def identity_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the hosts' identity from being what the settings say."""
    identity = draft.identity
    if identity is not None and identity.existing is None and not identity.manage_grants:
        yield Finding(
            f"{_IDENTITY}.manage_grants",
            "false is for an account of yours: nobody grants anything to one of the endpoint's own",
            f"Remove it, or name your account in {_IDENTITY}.service_account.",
        )


def identity_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What an account of another project may lack."""
    existing = settings.identity.existing
    if existing is not None and existing.project != settings.project:
        yield Finding(
            f"{_IDENTITY}.service_account",
            f"it is of {existing.project}, and hosts of {settings.project} run as it only where"
            " that project allows its accounts to be used by others",
            "What has to be allowed says https://cloud.google.com/iam/docs/attach-service-accounts"
            " (a different project); it was not tried with TPUs.",
        )


_LABELS = "tpuflex:labels"
#: By what each of tpuflex's own labels begins: it finds its resources by them.
_OWN_LABELS = "tpuflex-"
#: Those of Google's products begin so, and pulumi-gcp's (`goog-pulumi-provisioned`).
_GOOGLES_LABELS = "goog-"
#: A resource has at most 64 (https://cloud.google.com/resource-manager/docs/labels-overview). A
#: node has five of tpuflex's own; a bucket four, and that of pulumi-gcp.
MOST = 64 - 5


def label_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the labels of a stack from being put on what it makes."""
    labels = draft.labels or {}
    for key in labels:
        for prefix, whose in ((_OWN_LABELS, "tpuflex"), (_GOOGLES_LABELS, "Google")):
            if key.startswith(prefix):
                yield Finding(
                    f"{_LABELS}.{key}",
                    f"labels that begin with {prefix} are {whose}'s own",
                    "Write another key.",
                )
    if len(labels) > MOST:
        yield Finding(
            _LABELS,
            f"{len(labels)} labels are too many: Google takes 64 of a resource, and {64 - MOST} are"
            " needed to find it again",
            f"Write at most {MOST}.",
        )


_KMS_KEY = "tpuflex:encryption.kms_key"


def encryption_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the key from being used. Each of the services takes keys of the place alone where
    its data is, and everything of a stack is in one region:
    https://cloud.google.com/storage/docs/encryption/customer-managed-keys,
    https://cloud.google.com/secret-manager/docs/cmek, https://cloud.google.com/tpu/docs/cmek-tpu.
    """
    if draft.encryption is None or draft.slice is None:
        return
    location, regions = draft.encryption.location, draft.slice.regions
    # A key with zones in several regions is refused with these (``region_findings``).
    if location and len(regions) == 1 and location != regions[0]:
        region = regions[0]
        yield Finding(
            _KMS_KEY,
            f"the key is in {location}, and what it is to encrypt is in {region}",
            f"Write a key in {region}.",
        )


def encryption_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What a user who asks for a key may not expect."""
    weights = settings.model.weights
    if settings.encryption.kms_key is None or weights.bucket == "own":
        return
    home = "the library" if weights.existing is None else weights.existing.url
    yield Finding(
        _KMS_KEY,
        f"it does not encrypt the weights: they are kept in {home}, which the stack does not make",
        "Write tpuflex:model.weights.bucket: own, or a bucket of yours with a key of its own.",
    )


_SECRETS = "tpuflex:secrets"


def secret_findings(secrets: SecretsSettings) -> Iterator[Finding]:
    """What of ``secrets`` would have no effect."""
    fields = SecretsSettings.model_fields
    for role in secrets.existing:
        own = version_setting(role)
        if getattr(secrets, own) != fields[own].default:
            yield Finding(
                f"{_SECRETS}.{own}",
                f"it would have no effect: {existing_secret_setting(role)} names a secret of yours",
                "Remove one of the two.",
            )
    if not secrets.manage_grants and not secrets.existing:
        yield Finding(
            f"{_SECRETS}.manage_grants",
            "it would have no effect: no secret is yours",
            "Remove it, or name one, such as api_key: projects/PROJECT/secrets/NAME/versions/1.",
        )
    named: dict[str, str] = {}
    for role, existing in secrets.existing.items():
        key = existing_secret_setting(role)
        if (other := named.setdefault(existing.version, key)) != key:
            yield Finding(
                f"{_SECRETS}.{key}",
                f"it names the same version as {other}",
                "Write a secret of its own: each is for another purpose.",
            )


def programs_key_findings(draft: Draft) -> Iterator[Finding]:
    """A key for compiled programs where there are none to sign."""
    if draft.secrets is None or draft.serving is None or draft.model is None:
        return
    kept = draft.serving.kept_programs
    in_library = draft.model.weights.bucket == "library" and kept == "bucket"
    if kept != "none" and not in_library:
        return
    why = "the library signs them with its own" if in_library else "none are kept"
    for name in ("programs_key", "programs_key_version"):
        if getattr(draft.secrets, name) is not None:
            yield Finding(
                f"{_SECRETS}.{name}",
                f"it would have no effect: of compiled programs {why}",
                "Remove it.",
            )


def secret_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What is likely to keep hosts from reading secrets that are there already."""
    secrets = settings.secrets
    read = any(role in secrets.existing for role in HOST_SECRET_ROLES)
    if read and not secrets.manage_grants and settings.identity.existing is None:
        yield Finding(
            f"{_SECRETS}.manage_grants",
            "the hosts' account is made by `up`, so nobody can have let it read the secret before",
            "Name an account of yours in tpuflex:identity.service_account, or let the stack grant"
            " it.",
        )
