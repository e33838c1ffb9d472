"""The Pulumi program: settings to components to stack outputs."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path

import pulumi
from pulumi.runtime.settings import get_root_directory
from pulumi_gcp import compute, dns, monitoring, projects, secretmanager, serviceaccount, storage

from tpuflex.boot.metadata import startup_script
from tpuflex.by_class import load_by_class
from tpuflex.components.endpoint import VllmEndpoint, without_unknown
from tpuflex.components.endpoint_args import Preparation, StateSeen, VllmEndpointArgs
from tpuflex.errors import AccessError, SettingsError
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.project import open_project
from tpuflex.settings.load import load_pulumi_config
from tpuflex.settings.model import StackSettings
from tpuflex.settings.rules import warnings
from tpuflex.weights.source import local_files_reader

#: The packages of pulumi-gcp that have more modules than the endpoint has resources.
_LARGE = (compute, monitoring, storage)
#: What is loaded of every package of pulumi-gcp that the components use.
_FIRST_CLASSES = (
    (compute, "Firewall"),
    (compute, "Network"),
    (compute, "Subnetwork"),
    (dns, "ManagedZone"),
    (projects, "Service"),
    (secretmanager, "Secret"),
    (serviceaccount, "Account"),
    (storage, "Bucket"),
    (storage, "BucketIAMMember"),
)


def load(*, by_class: bool = False) -> None:
    """Load the classes that :func:`deploy` uses, and put the startup script together, which takes
    more than half a second.

    pulumi-gcp loads a module when the first of its classes is touched, which would be while the
    engine waits for the program. The classes are never freed: the garbage collector, which
    would cost a quarter of the time, is off during the load and ignores them afterwards.

    Args:
        by_class: whether of pulumi-gcp's largest packages no other classes are loaded, which is for
            a process that runs no program but ours (docs/adr/0043).
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        if by_class:
            for package in _LARGE:
                load_by_class(package)
        for module, name in _FIRST_CLASSES:
            getattr(module, name)
        startup_script()
        gc.freeze()
    finally:
        if collecting:
            gc.enable()


def main() -> None:
    """Deploy what the running program's stack file describes.

    Raises:
        pulumi.RunError: the stack file is wrong, others could change the project, or the
            environment points to another cloud.
    """
    load()
    try:
        open_project(Path(get_root_directory() or ""), os.environ)
        settings = load_pulumi_config(pulumi.Config("tpuflex"), local_files_reader)
    except (AccessError, SettingsError) as error:
        raise pulumi.RunError(str(error)) from error
    deploy(settings, project=pulumi.get_project(), stack=pulumi.get_stack())


def deploy(
    settings: StackSettings,
    *,
    project: str,
    stack: str,
    prepare: Preparation | None = None,
    state_seen: StateSeen | None = None,
    environ: Mapping[str, str] | None = None,
    key_unread: bool = False,
) -> VllmEndpoint:
    """Register the endpoint that ``settings`` describes and export the stack's outputs.

    Args:
        settings: what to deploy.
        project: Pulumi project name.
        stack: Pulumi stack name, without organization.
        prepare: awaited after bucket and secrets exist and before chips are requested; says which
            weights to serve. Without it the settings must pin them.
        state_seen: told the state's id before anything that carries it is made.
        environ: the environment that the plugins run with, checked against the cloud of the
            settings; the process's own by default.
        key_unread: as :attr:`~tpuflex.components.endpoint_args.VllmEndpointArgs.key_unread`.

    Raises:
        pulumi.RunError: the environment points to another cloud than the settings, or nothing says
            which weights to serve.
    """
    for warning in warnings(settings):
        pulumi.log.warn(str(warning))
    endpoint = VllmEndpoint(
        ENDPOINT_NAME,
        VllmEndpointArgs(
            cloud=settings.cloud,
            project=settings.project,
            slice=settings.slice,
            model=settings.model,
            serving=settings.serving,
            network=settings.network,
            secrets=settings.secrets,
            identity=settings.identity,
            encryption=settings.encryption,
            monitoring=settings.monitoring,
            labels=settings.labels,
            manage_apis=settings.manage_apis,
            catalog=settings.catalog.own,
            names=Names(project, stack, ENDPOINT_NAME, settings.model.weights.bucket_suffix or ""),
            prepare=prepare,
            state_seen=state_seen,
            environ=environ,
            key_unread=key_unread,
            checkpoint=settings.checkpoint,
        ),
    )
    for name, value in without_unknown(outputs(endpoint)).items():
        pulumi.export(name, value)
    return endpoint


def outputs(endpoint: VllmEndpoint) -> dict[str, object]:
    """The stack's outputs by name; prices in US dollars, None where no price is known."""
    cost = endpoint.cost
    return {
        "endpoint": endpoint.url,
        "model": endpoint.model,
        "zone": endpoint.zone,
        "queued_resource": endpoint.queued_resource.id,
        "state": endpoint.state,
        "lifecycle": endpoint.lifecycle,
        "expires": endpoint.expires,
        "bucket": endpoint.bucket,
        "api_key_secret": endpoint.api_key_secret,
        "price_per_hour": None if cost.per_hour is None else float(cost.per_hour),
        "max_cost": None if cost.maximum is None else float(cost.maximum),
    }
