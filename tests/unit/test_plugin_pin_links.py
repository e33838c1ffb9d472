"""The pin of the gcp plugin, where it is a link that leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuflex.engine.plugin_pin import PIN_FILE, require_pinned_plugin
from tpuflex.errors import SettingsError


@pytest.mark.parametrize("target", ["absent.sha256", PIN_FILE])
def test_a_pin_that_leads_to_no_file_is_refused(tmp_path: Path, target: str) -> None:
    """A pin file that is a dangling or looping link is refused: ignored, it would pin nothing."""
    (tmp_path / PIN_FILE).symlink_to(target)

    with pytest.raises(SettingsError, match="link that leads to no file"):
        require_pinned_plugin(tmp_path, tmp_path / "home", tmp_path / "pulumi", {}, print)
