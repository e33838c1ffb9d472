"""How Cloud Monitoring words what is wrong with a request.

Texts as they were seen in public issues until 2026-11, such as hashicorp/terraform-provider-google
#4165 and influxdata/telegraf#13826; where none was seen, in their form.
"""

from __future__ import annotations

from embedded_cloud.errors import CloudError, invalid_argument


def invalid_field(field: str, value: object, reason: str) -> CloudError:
    """400 for a field whose value cannot be."""
    return invalid_argument(f'Field {field} had an invalid value of "{value}": {reason}')
