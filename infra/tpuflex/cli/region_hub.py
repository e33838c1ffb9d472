"""A model of the Hub, as a machine within the region copies it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tpuflex.cli.region_source import Say, Seen
from tpuflex.cli.source_access import ENDPOINT_VARIABLE, secret_token
from tpuflex.copier.job import HubOrigin, JobFile
from tpuflex.errors import Finding, SettingsError
from tpuflex.gcp.brought_secret import project_of, require_grantable
from tpuflex.gcp.endpoints import Endpoints, is_loopback
from tpuflex.naming import HF_TOKEN
from tpuflex.operate.hub.client import HubClient
from tpuflex.operate.hub.snapshot import SOURCE_KEY, HubSource
from tpuflex.operate.region_copy.grants import Grant, secret_grant

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.stack import OpenStack

_HUB = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class HubRegionSource:
    """A model of the Hub; what it reads beside is the token of the stack's secrets.

    Attributes:
        source: names it.
    """

    source: HubSource

    def findings(self, stack: OpenStack) -> Iterator[Finding]:
        """Why the stack file keeps a machine from it; asks for nothing."""
        secrets = stack.settings.secrets
        if (token := secrets.brought.get(HF_TOKEN)) is not None and not secrets.manage_grants:
            problem = f"it is false, so no machine may read {token.version}"
            yield Finding("tpuflex:secrets.manage_grants", problem)

    def require_grantable(self, cloud: Cloud) -> None:
        """Check that an account can be let read a token of the user's own, by the caller.

        Raises:
            NotFoundError, AlreadyExistsError, AccessError, ApiError: as
                :func:`tpuflex.gcp.brought_secret.require_grantable`.
        """
        if (token := cloud.stack.settings.secrets.brought.get(HF_TOKEN)) is not None:
            require_grantable(cloud.apis().secretmanager, HF_TOKEN, token)

    def seen(self, cloud: Cloud, say: Say) -> Seen:
        """What the Hub lists. It is asked with the token that the machine will have, and no other:
        what may not be read is refused before anything is made."""
        client = HubClient(
            hub_address(cloud, default=""), lambda: secret_token(cloud), cloud.timing
        )
        snapshot = client.snapshot(self.source, cloud.stack.settings.model.weights.extra_files)
        if not self.source.pinned:
            say(
                f"hub: {self.source.revision or 'the default branch'} of {snapshot.repository} is"
                f" commit {snapshot.commit}. To stay with it, write {SOURCE_KEY}: {snapshot.source}"
            )
        token = HF_TOKEN in cloud.stack.settings.secrets.roles
        version = cloud.secret_version(HF_TOKEN) if token else ""
        origin = HubOrigin(hub_address(cloud), snapshot.repository, snapshot.commit, version)
        files = tuple(
            JobFile(file.path, file.size, file.sha256, "" if file.sha256 else file.git_id)
            for file in snapshot.files
        )
        return Seen(snapshot.source, origin, files, snapshot.left_out)

    def grants(self, cloud: Cloud) -> tuple[Grant, ...]:
        """To read the one version of the secret with the token, if there is one.

        Raises:
            NotFoundError, AlreadyExistsError: a secret of the user's own cannot be used.
            AccessError, ApiError: it cannot be told.
        """
        secrets = cloud.stack.settings.secrets
        brought, own = secrets.brought.get(HF_TOKEN), secrets.hf_token_version
        if brought is not None:
            project = project_of(cloud.apis().secretmanager, HF_TOKEN, brought)
            return (secret_grant(brought.secret, brought.number, project),)
        if own is not None:
            return (secret_grant(cloud.secret(HF_TOKEN), own, cloud.project_number),)
        return ()

    def reads(self, cloud: Cloud) -> str:
        """What the machine is let read of Secret Manager; empty for nothing."""
        secrets = cloud.stack.settings.secrets
        brought = secrets.brought.get(HF_TOKEN)
        if brought is not None:
            return f"the Hub's token in {brought.version}"
        return "the Hub's token" if HF_TOKEN in secrets.roles else ""

    def elsewhere_texts(self, cloud: Cloud) -> Iterator[str]:
        """What comes from the Hub costs nothing."""
        del cloud
        yield from ()


def hub_address(cloud: Cloud, *, default: str = _HUB) -> str:
    """Address of the Hub, as a machine may be told it.

    Raises:
        SettingsError: a machine could not reach it, or it has a password in it.
    """
    found = cloud.environ.get(ENDPOINT_VARIABLE, "").rstrip("/") or default
    if "@" in urlsplit(found).netloc:
        raise SettingsError(
            "the environment",
            (Finding(ENDPOINT_VARIABLE, "it has a user in it", "Write it without."),),
            hint="It would stand in the metadata of the machine, which many may read.",
        )
    if is_loopback(found) and not Endpoints.from_environ(cloud.environ).embedded:
        raise SettingsError(
            "the environment",
            (Finding(ENDPOINT_VARIABLE, "it is on this machine", "Unset it."),),
            hint="A machine in the region cannot reach it.",
        )
    return found
