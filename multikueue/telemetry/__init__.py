"""How the shell says what happened: logs as events with fields, and the instruments that count.

`logs` sets up structlog, `metrics` holds the instruments as one value that is handed in, never in globals. What can be
read from the state of the process at scrape time is not counted here: `controllers.figures` reads it. The pure rooms use
none of this. Importing the room loads the logs only: commands that count nothing need not pay for the instruments.
"""

from __future__ import annotations

from multikueue.telemetry.logs import configure, set_level

__all__ = ["configure", "set_level"]
