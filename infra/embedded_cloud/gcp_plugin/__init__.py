"""A stand-in for the published pulumi-gcp plugin, for the embedded cloud.

A program's ``gcp:`` resources are real pulumi-gcp classes. On Google the published plugin serves
them; on the embedded cloud this package can. It serves the resource types that tpuflex uses, makes
the same REST calls as the published plugin and computes the same outputs. All other types, and all
functions, are refused by name.

    types, fields        property values, here and in the REST API
    resource_type        a row of the tables
    table_*, tables      the tables, each with what only its types do
    diff, states, labels rules over rows (pure)
    collection, policies create, read, update, delete
    rest, call           requests and waits
    settings             the configured providers
    provider             the service itself; the protocol is in pulumi_plugin

Source: pulumi-gcp 10.2.0 for names, terraform-provider-google for behaviour.
"""
