"""`tpuflex --help` is quick."""

from __future__ import annotations

import subprocess
import sys


def test_help_imports_nothing_heavy() -> None:
    """`tpuflex --help` pays for none of the libraries that the commands use."""
    heavy = "pulumi google pydantic yaml rich requests grpc aiohttp psutil"
    program = (
        "import sys; from tpuflex.cli.main import run; code = run(['--help'])\n"
        f"print(*sorted(set(sys.modules) & set('{heavy}'.split())), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stderr.strip() == ""
