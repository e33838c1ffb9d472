"""The Pulumi program: read the stack file, deploy the endpoint."""

from __future__ import annotations

from tpuflex.program import main

main()
