"""Every gcloud command that tpuflex prints or runs.

The hosts have no external address, so the way in is IAP. Only gcloud's alpha track has
``--tunnel-through-iap`` for TPU VMs: in gcloud's own source (528, 2025-06-20,
``surface/compute/tpus/tpu_vm/ssh.py``) the class of the GA track says ``_ENABLE_IAP = False``, and
beta has no such command. tests/unit/test_gcloud_commands.py has gcloud's own parser read them all.
Reference: https://cloud.google.com/sdk/gcloud/reference/alpha/compute/tpus/tpu-vm/ssh
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

#: Where the startup script of a host writes, in the host's file system.
HOST_LOG = "/var/log/tpuflex/startup.log"

#: A connection that no longer answers ends within 45 s (ssh_config(5)); it would hang for hours.
_NOTICES_A_DROP = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
#: Without these a tunnel could outlive its command (ControlMaster of the user's own configuration),
#: or be no tunnel at all (the local port was taken).
_ONE_TUNNEL = ("-o", "ExitOnForwardFailure=yes", "-o", "ControlPath=none")


@dataclass(frozen=True, slots=True)
class GcloudCommand:
    """A gcloud command.

    Attributes:
        words: its words, ``gcloud`` the first.
    """

    words: tuple[str, ...]

    def __str__(self) -> str:
        """The command as it is typed in a shell."""
        return shlex.join(self.words)

    @property
    def component(self) -> str:
        """Component that gcloud needs for it, or empty where its core has the command."""
        return self.words[1] if self.words[1] in ("alpha", "beta") else ""

    @property
    def hint(self) -> str:
        """What a user has to know beside the command; empty where there is nothing."""
        return f"(needs gcloud's component: {install(self.component)})" if self.component else ""


def install(component: str) -> GcloudCommand:
    """Install a component of gcloud."""
    return GcloudCommand(("gcloud", "components", "install", component))


def log_in() -> GcloudCommand:
    """Make the credentials that Google's libraries find by themselves (ADC)."""
    return GcloudCommand(("gcloud", "auth", "application-default", "login"))


def set_quota_project(project: str) -> GcloudCommand:
    """Name the project that requests with those credentials take their quota from."""
    return GcloudCommand(("gcloud", "auth", "application-default", "set-quota-project", project))


def log_in_gcloud() -> GcloudCommand:
    """Log gcloud itself in: it does not use the credentials of Google's libraries."""
    return GcloudCommand(("gcloud", "auth", "login"))


def let_through_iap(project: str) -> GcloudCommand:
    """Give a user the role with which IAP opens tunnels to the hosts of ``project``.

    Source: https://cloud.google.com/iap/docs/using-tcp-forwarding#grant-permission
    """
    return grant(project, "roles/iap.tunnelResourceAccessor", "user:YOU@EXAMPLE.COM")


def let_log_in(project: str) -> GcloudCommand:
    """Give a user the role with which OS Login lets them in, with sudo.

    Source: https://cloud.google.com/compute/docs/oslogin/set-up-oslogin#configure_users
    """
    return grant(project, "roles/compute.osAdminLogin", "user:YOU@EXAMPLE.COM")


def show_project() -> GcloudCommand:
    """Show the project that gcloud uses."""
    return GcloudCommand(("gcloud", "config", "get-value", "project"))


def create_mirror(
    repository: str, *, upstream: str, location: str, project: str = ""
) -> GcloudCommand:
    """Make a repository of Artifact Registry that mirrors another registry.

    Args:
        repository: its id.
        upstream: ``docker-hub``, or the URL of another registry.
        location: its region.
        project: its project; that of gcloud's configuration by default.

    Source: https://cloud.google.com/artifact-registry/docs/repositories/remote-repo
    """
    return GcloudCommand(
        (
            *("gcloud", "artifacts", "repositories", "create", repository),
            "--repository-format=docker",
            "--mode=remote-repository",
            f"--remote-docker-repo={upstream}",
            f"--location={location}",
            *([f"--project={project}"] if project else []),
        )
    )


def ssh(node: str) -> GcloudCommand:
    """Open a shell on the first host of ``node`` (full resource name), through IAP.

    Raises:
        ValueError: ``node`` is no full resource name of a node.
    """
    match node.split("/"):
        case ["projects", project, "locations", zone, "nodes", name] if name:
            pass
        case _:
            raise ValueError(f"not the full name of a node: {node!r}")
    return GcloudCommand(
        (
            *("gcloud", "alpha", "compute", "tpus", "tpu-vm", "ssh", name),
            f"--zone={zone}",
            f"--project={project}",
            "--tunnel-through-iap",
        )
    )


def on_host(node: str, command: str, *, terminal: bool = False) -> GcloudCommand:
    """Run a command on the first host of ``node``, on a terminal of its own where asked for."""
    options = ("--", "-t") if terminal else ()
    return GcloudCommand((*ssh(node).words, "--command", command, *options))


def program_on_host(node: str, command: str) -> GcloudCommand:
    """As :func:`on_host`, for a program that is talked to for hours: it notices a connection
    that no longer answers."""
    return GcloudCommand((*on_host(node, command).words, "--", *_NOTICES_A_DROP))


def tunnel(node: str, *, local_port: int, address: str, port: int) -> GcloudCommand:
    """Forward ``local_port`` of this machine to ``port`` of the host of ``node`` at ``address``."""
    forward = f"127.0.0.1:{local_port}:{address}:{port}"
    return GcloudCommand((*ssh(node).words, "--", "-N", *_NOTICES_A_DROP, "-L", forward))


def held_tunnel(node: str, *, local_port: int, address: str, port: int) -> GcloudCommand:
    """As :func:`tunnel`, for a program: it ends with its standard input, and asks nothing of it.

    ``cat`` on the host ends when the program that holds the other end of standard input does, even
    if it was killed, and ssh and gcloud end with it.
    """
    forward = f"127.0.0.1:{local_port}:{address}:{port}"
    options = ("--", *_ONE_TUNNEL, *_NOTICES_A_DROP, "-L", forward)
    return GcloudCommand((*on_host(node, "cat").words, *options))


def host_log(node: str, *, lines: int, follow: bool = False) -> GcloudCommand:
    """Show the last ``lines`` of the log of the host of ``node``; ``follow``: and what comes."""
    reader = f"sudo tail -n {lines}{' -F' if follow else ''} {HOST_LOG}"
    options = ("--", *_NOTICES_A_DROP) if follow else ()
    return GcloudCommand((*on_host(node, reader).words, *options))


def server_log(
    node: str, container: str, *, lines: int, since: str = "", follow: bool = False
) -> GcloudCommand:
    """Show the last ``lines`` of what the server in ``container`` on the host of ``node`` writes.

    Args:
        node: full name of the node.
        container: name of the container.
        lines: how many of what is there.
        since: only what was written then (RFC 3339) or later; empty for all.
        follow: and what comes.
    """
    from_then = f" --since {since}" if since else ""
    reader = f"sudo docker logs --tail {lines}{from_then}{' --follow' if follow else ''}"
    options = ("--", *_NOTICES_A_DROP) if follow else ()
    return GcloudCommand((*on_host(node, f"{reader} {container} 2>&1").words, *options))


def enable_services(project: str, *services: str) -> GcloudCommand:
    """Enable APIs (``tpu.googleapis.com``) in a project."""
    return GcloudCommand(("gcloud", "services", "enable", *services, f"--project={project}"))


def enabled_services(project: str) -> GcloudCommand:
    """List the APIs that are enabled in a project."""
    return GcloudCommand(("gcloud", "services", "list", "--enabled", f"--project={project}"))


def billing_accounts() -> GcloudCommand:
    """List the billing accounts that the caller may see."""
    return GcloudCommand(("gcloud", "billing", "accounts", "list"))


def delete_firewall_rules(project: str, *names: str) -> GcloudCommand:
    """Delete firewall rules of a project."""
    return GcloudCommand(
        ("gcloud", "compute", "firewall-rules", "delete", *names, f"--project={project}")
    )


def enable_private_access(subnetwork: str) -> GcloudCommand:
    """Turn Private Google Access on in ``projects/P/regions/R/subnetworks/S``."""
    _, project, _, region, _, name = subnetwork.split("/")
    place = (f"--project={project}", f"--region={region}")
    words = ("gcloud", "compute", "networks", "subnets", "update", name, *place)
    return GcloudCommand((*words, "--enable-private-ip-google-access"))


def grant(project: str, role: str, member: str) -> GcloudCommand:
    """Give ``member`` (``user:you@example.com``) a role on a project."""
    return GcloudCommand(
        (
            *("gcloud", "projects", "add-iam-policy-binding", project),
            f"--member={member}",
            f"--role={role}",
        )
    )


def _bound(words: tuple[str, ...], role: str, member: str) -> GcloudCommand:
    return GcloudCommand((*words, f"--member={member}", f"--role={role}"))


def grant_on_secret(project: str, secret: str, role: str, member: str) -> GcloudCommand:
    """Give ``member`` a role on a secret of a project."""
    words = ("gcloud", "secrets", "add-iam-policy-binding", secret, f"--project={project}")
    return _bound(words, role, member)


def grant_on_account(project: str, email: str, role: str, member: str) -> GcloudCommand:
    """Give ``member`` a role on a service account of a project."""
    words = ("gcloud", "iam", "service-accounts", "add-iam-policy-binding", email)
    return _bound((*words, f"--project={project}"), role, member)


def _key_place(key: str) -> tuple[str, ...]:
    """``projects/P/locations/L/keyRings/R/cryptoKeys/K`` as gcloud's words."""
    _, project, _, location, _, ring, _, name = key.split("/")
    return (name, f"--keyring={ring}", f"--location={location}", f"--project={project}")


def grant_on_key(key: str, role: str, member: str) -> GcloudCommand:
    """Give ``member`` a role on a key of Cloud KMS (full resource name)."""
    words = ("gcloud", "kms", "keys", "add-iam-policy-binding", *_key_place(key))
    return _bound(words, role, member)


def describe_key(key: str) -> GcloudCommand:
    """Show a key of Cloud KMS (full resource name) with its primary version."""
    return GcloudCommand(("gcloud", "kms", "keys", "describe", *_key_place(key)))


def show_storage_agent(project: str) -> GcloudCommand:
    """Show Cloud Storage's service agent of a project, which is made by asking for it.

    Source: https://cloud.google.com/storage/docs/getting-service-agent
    """
    return GcloudCommand(("gcloud", "storage", "service-agent", f"--project={project}"))


def create_agent(project: str, service: str) -> GcloudCommand:
    """Make the service agent of ``service`` (``secretmanager.googleapis.com``) in a project.

    Source: https://cloud.google.com/secret-manager/docs/cmek
    """
    words = ("gcloud", "beta", "services", "identity", "create")
    return GcloudCommand((*words, f"--service={service}", f"--project={project}"))


def enable_account(project: str, email: str) -> GcloudCommand:
    """Enable a service account of a project."""
    words = ("gcloud", "iam", "service-accounts", "enable", email, f"--project={project}")
    return GcloudCommand(words)


def list_channels(project: str) -> GcloudCommand:
    """Show the notification channels of a project."""
    return GcloudCommand(
        ("gcloud", "beta", "monitoring", "channels", "list", f"--project={project}")
    )


def link_billing(project: str, account: str) -> GcloudCommand:
    """Let a billing account pay for a project."""
    return GcloudCommand(
        ("gcloud", "billing", "projects", "link", project, f"--billing-account={account}")
    )


def describe_project(project: str) -> GcloudCommand:
    """Show a project, if it exists and the caller may see it."""
    return GcloudCommand(("gcloud", "projects", "describe", project))


def undelete_project(project: str) -> GcloudCommand:
    """Keep a project that is to be deleted."""
    return GcloudCommand(("gcloud", "projects", "undelete", project))


def do_not_enforce(constraint: str, project: str) -> GcloudCommand:
    """Take a boolean organisation policy off a project."""
    return GcloudCommand(
        (
            *("gcloud", "resource-manager", "org-policies", "disable-enforce", constraint),
            f"--project={project}",
        )
    )


def show_policy(constraint: str, project: str) -> GcloudCommand:
    """Show the organisation policy that is in force on a project."""
    return GcloudCommand(
        (
            *("gcloud", "resource-manager", "org-policies", "describe", constraint),
            "--effective",
            f"--project={project}",
        )
    )


def show_accelerators(project: str, zone: str) -> GcloudCommand:
    """Show the accelerator types that a zone has."""
    return GcloudCommand(
        (
            *("gcloud", "compute", "tpus", "accelerator-types", "list"),
            f"--zone={zone}",
            f"--project={project}",
        )
    )


def list_objects(pattern: str) -> GcloudCommand:
    """List the objects of Cloud Storage that match ``gs://BUCKET/…``."""
    return GcloudCommand(("gcloud", "storage", "ls", pattern))


#: How buckets are kept by the rules of policy.
_PRIVATE = ("--uniform-bucket-level-access", "--public-access-prevention")


def create_bucket(url: str, region: str) -> GcloudCommand:
    """Make the bucket ``gs://BUCKET`` as weights are kept: private, uniform, in ``region``."""
    words = ("gcloud", "storage", "buckets", "create", url, f"--location={region}")
    return GcloudCommand((*words, *_PRIVATE))


def make_private(url: str) -> GcloudCommand:
    """Turn uniform bucket-level access and public access prevention on in ``gs://BUCKET``."""
    return GcloudCommand(("gcloud", "storage", "buckets", "update", url, *_PRIVATE))


def remove_bucket(url: str) -> GcloudCommand:
    """Delete the bucket ``gs://BUCKET`` with all that is in it."""
    return GcloudCommand(("gcloud", "storage", "rm", "--recursive", url))


def no_requester_pays(url: str) -> GcloudCommand:
    """Have the owner of the bucket ``gs://BUCKET`` pay for what is read of it."""
    return GcloudCommand(("gcloud", "storage", "buckets", "update", url, "--no-requester-pays"))


def end_retention(url: str) -> GcloudCommand:
    """End the retention policy of the bucket ``gs://BUCKET``, which may not be locked."""
    words = ("gcloud", "storage", "buckets", "update", url)
    return GcloudCommand((*words, "--clear-retention-period"))


def grant_on_bucket(url: str, role: str, member: str) -> GcloudCommand:
    """Grant ``role`` on the bucket ``gs://BUCKET`` to ``member``."""
    words = ("gcloud", "storage", "buckets", "add-iam-policy-binding", url)
    return GcloudCommand((*words, f"--member={member}", f"--role={role}"))
