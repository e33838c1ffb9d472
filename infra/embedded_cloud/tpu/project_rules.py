"""What the project around a node must allow: its service account, and organization policies."""

from __future__ import annotations

from embedded_cloud.cloudkms import KeyUse, disk_refusal, location_of
from embedded_cloud.errors import CloudError, failed_precondition, invalid_argument
from embedded_cloud.iam.state import exists
from embedded_cloud.json_types import JsonObject, child, flag, text
from embedded_cloud.routing import Context
from embedded_cloud.strictness import OrganizationPolicies
from embedded_cloud.tpu.records import Place


class ProjectRules:
    """Rules about nodes that the project or its organization makes, as strict as the cloud is."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._keys = KeyUse(context)

    def check(self, place: Place, node_id: str, node: JsonObject) -> None:
        """Check a node, alone or inside a node spec.

        Raises:
            CloudError: 400, its service account is not known, the key of its boot disk cannot be
                used, or a policy forbids its address or that it has no Secure Boot.
        """
        self._check_secure_boot(node)
        self._check_service_account(text(child(node, "serviceAccount"), "email"))
        self._check_key(place, child(child(node, "bootDiskConfig"), "customerEncryptionKey"))
        if flag(child(node, "networkConfig"), "enableExternalIps"):
            self._check_external_address(place, node_id)

    @property
    def _policies(self) -> OrganizationPolicies:
        return self._context.strictness().organization_policies

    def _check_service_account(self, email: str) -> None:
        """The text is inferred: no public log shows what Cloud TPU answers."""
        delay = self._context.strictness().service_accounts.nodes_know_after_s
        if delay is None or not email:
            return
        if not exists(self._context.store, email, made_by=self._context.clock.now() - delay):
            raise invalid_argument(
                f"Cloud TPU received a bad request. Service account {email} does not exist."
            )

    def _check_key(self, place: Place, disk: JsonObject) -> None:
        """A TPU takes keys of its own region alone (https://cloud.google.com/tpu/docs/cmek-tpu).

        The texts are those of Compute Engine: no public log shows what Cloud TPU answers.
        """
        key, region = text(disk, "kmsKeyName"), place.zone.rpartition("-")[0]
        if not key:
            return
        why = disk_refusal(self._keys, key, region, self._context.project_number(place.project))
        if not why and location_of(key) != region:
            why = f"Cloud KMS error when using key {key}: The key must be in the region {region}."
        if why:
            raise invalid_argument(f"Cloud TPU received a bad request. {why}")

    def _check_secure_boot(self, node: JsonObject) -> None:
        """The text was seen: google/fully-homomorphic-encryption#103 on GitHub."""
        required = self._policies.enforces("compute.requireShieldedVm")
        if required and not flag(child(node, "shieldedInstanceConfig"), "enableSecureBoot"):
            raise invalid_argument(
                "Cloud TPU received a bad request. Constraint"
                " constraints/compute.requireShieldedVm violated. Please create TPUs with Secure"
                " Boot enabled or remove the Organization Policy Constraint."
            )

    def _check_external_address(self, place: Place, node_id: str) -> None:
        if self._policies.restricts("compute.vmExternalIpAccess"):
            raise external_address_forbidden(
                self._context.project_number(place.project), f"{place.parent}/nodes/{node_id}"
            )


def external_address_forbidden(project_number: str, name: str) -> CloudError:
    """400: seen of Compute Engine instances, as 412 there."""
    return failed_precondition(
        f"Constraint constraints/compute.vmExternalIpAccess violated for project {project_number}."
        f" Add instance {name} to the constraint to use external IP with it."
    )
