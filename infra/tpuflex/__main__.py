"""`python -m tpuflex` is the `tpuflex` command."""

from __future__ import annotations

from tpuflex.cli.main import main

main()
