"""Facts about accelerators, models, prices, zones and images: rows with source and date."""

#: A user's own rows, for all stacks of a project, beside its Pulumi.yaml.
USER_FILE = "catalog.yaml"
#: The kinds of rows, in the order in which they are listed.
KINDS = ("accelerators", "zones", "prices", "models", "images")
