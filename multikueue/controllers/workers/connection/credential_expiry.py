"""The end of the credential in use: it is told in time, and once the worker refuses it, its source is read again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from multikueue.api.meta import render_time
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workers.connection.credentials_on_trial import CredentialsTrial
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.expiry import Validity, of_credentials
from multikueue.store.workers.worker import WorkerView

__all__ = ["CREDENTIAL_EXPIRING", "CredentialExpiry"]

CREDENTIAL_EXPIRING = "CredentialExpiring"
"""Reason of an event."""


@dataclass(slots=True)
class CredentialExpiry:
    """Owner: the worker's connection. `validity` is that of the credential in use, None if it has no end."""

    context: ReconcileContext
    worker: WorkerView
    offered: CredentialsTrial
    validity: Validity | None = None

    def look_at(self, credentials: Credentials) -> None:
        """Takes note of the credentials that are in use from now on."""
        self.validity = of_credentials(credentials)
        self.worker.uses_credential(self.validity.end if self.validity else None)

    def notes(self) -> tuple[str, ...]:
        """That the credential in use ends soon, or has ended; with the time itself, so that it stays the same text."""
        validity, now = self.validity, self.context.now()
        if validity is None or now < validity.warn_at:
            return ()
        verb = "ended" if validity.end <= now else "ends"
        return (f"its credential {verb} at {render_time(validity.end)}: register the cluster again",)

    def until_news(self) -> timedelta | None:
        """The time until `notes` says something else; None if it never does."""
        validity, now = self.validity, self.context.now()
        coming = (moment for moment in ((validity.warn_at, validity.end) if validity else ()) if moment > now)
        return next((moment - now for moment in coming), None)

    def refused(self) -> None:
        """The worker answers 401, whatever the credential says of its end: reads their source again, and retries the
        offered ones at once."""
        self.context.queues.clusters.add(self.worker.name)
        self.offered.pause.cancel()
