"""A stand-in for the published pulumi-gcp plugin, for the embedded cloud.

A program's ``gcp:`` resources are real pulumi-gcp classes. On Google the published plugin
serves them. On the embedded cloud this package can: it answers the engine's provider protocol
for the resource types that tpuflex uses, makes the same REST calls as the published plugin
and computes the same outputs. Every other type and every function is refused by name.

    types, fields        what a property value looks like, here and in the REST API
    resource_type        what the tables say of a type
    table_*, tables      the tables; properties: what several of them share
    check, diff, states, labels     rules over the tables (pure)
    collection, router_nat, iam_member, policies, enabled_service    how types live in the API
    rest, operations, waiting       calls and waits
    settings, configured            the configured providers
    provider, server     the service itself; the protocol is in pulumi_plugin

Source: pulumi-gcp 10.2.0 for names, terraform-provider-google for behaviour.
"""

from __future__ import annotations

from embedded_cloud.gcp_plugin.server import serve
from pulumi_plugin.serve import RunningPlugin

__all__ = ["RunningPlugin", "serve"]
