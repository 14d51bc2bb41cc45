"""How the shell says what happened: logs as events with fields, and the instruments that count.

`logger` hands out loggers, `logs` says where what they say goes, `metrics` holds the instruments as one value that is handed
in, never in globals. `spared` is structlog as we load it. What can be read from the state of the process at scrape time is
not counted here: `controllers.metrics.collector` reads it. The pure rooms use none of this. Importing the room loads nothing
that takes time: commands that say and count nothing need not pay for it.
"""

from __future__ import annotations

from multikueue.telemetry.logger import bind, get_logger

__all__ = ["bind", "get_logger"]
