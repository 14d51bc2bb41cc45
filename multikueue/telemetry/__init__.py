"""Logs as events with fields, and the instruments of Prometheus.

`logger` gives out loggers, `logs` configures their output, `metrics` holds the instruments as one value that is passed
in, never in globals. `spared` is structlog as we load it. `controllers.metrics.collector`, not this room, exposes what
can be read from the state of the process at scrape time. The pure rooms use none of this. Importing the room loads
nothing slow: commands without logs and metrics start fast.
"""

from __future__ import annotations

from multikueue.telemetry.logger import bind, get_logger

__all__ = ["bind", "get_logger"]
