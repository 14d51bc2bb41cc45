"""Distributions with strategies of somebody else's, as pip would install them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from multikueue.registry import STRATEGIES, Group

HEADER = '''
"""Strategies of somebody else's."""

import time
from dataclasses import dataclass
from multikueue.strategy import Fleet, Nomination, Workload

'''

BLOCKER = '''
@dataclass(frozen=True)
class Blocker:
    """Thinks for ever about workloads whose name contains `blocked`."""

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        while "blocked" in workload.name:
            time.sleep(0.01)
        return Nomination(fleet.names)
'''

LAST_ONLY = '''
@dataclass(frozen=True)
class LastOnly:
    """The last `count` usable workers, and no others."""

    count: int = 1

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        return Nomination(fleet.names[-self.count :])
'''


def distribution(folder: Path, module: str, source: str, group: Group = STRATEGIES, **points: str) -> Path:
    """A folder for sys.path with one module, and an entry point for each name of a class in it."""
    site = folder / f"site-{module}"
    info = site / f"{module}-1.2.dist-info"
    info.mkdir(parents=True)
    (site / f"{module}.py").write_text(dedent(source))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
    entries = "\n".join(f"{name.replace('_', '-')} = {module}:{value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group.name}]\n{entries}\n")
    return site
