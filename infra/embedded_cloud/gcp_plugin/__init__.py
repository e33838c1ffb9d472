"""A stand-in for the published pulumi-gcp plugin, for the embedded cloud.

A program's ``gcp:`` resources are real pulumi-gcp classes. On Google the published plugin
serves them. On the embedded cloud this package can: it answers the engine's provider protocol
for the resource types that tpuflex uses, makes the same REST calls as the published plugin
and computes the same outputs. Every other type and every function is refused by name.

    protocol, stubs      the engine's messages, loaded without the Pulumi SDK
    values               property values on that wire: unknowns and secrets
    shapes, fields       what a property value looks like, here and in the REST API
    rows                 what a row of the tables says
    table_*, types       the tables
    check, diff, changes, labels    rules over rows (pure)
    collection, router_nat, iam_member, policies, enabled_service    how types live in the API
    rest, operations, waiting       calls and waits
    settings, sessions   the configured providers
    provider, boundary, schema, server    the service itself

Source: pulumi-gcp 10.2.0 for names, terraform-provider-google for behaviour.
"""

from __future__ import annotations

from embedded_cloud.gcp_plugin.server import RunningPlugin, serve

__all__ = ["RunningPlugin", "serve"]
