"""The manager's settings, for commands that compute what the manager would."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multikueue.settings import Settings

__all__ = ["load_settings"]


def load_settings(config: Path | None) -> Settings | None:
    """The settings; None if neither a file nor a variable sets anything. Raises SettingsError.

    Without settings the defaults of what they configure count, which are the same. To load the settings costs a third of
    what a short command does.
    """
    if config is None and not any(name.startswith("MULTIKUEUE_") for name in os.environ):
        return None
    from multikueue import settings

    return settings.load(config)
