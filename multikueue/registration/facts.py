"""The server in a kubeconfig and the validity of its credential, without connecting."""

from __future__ import annotations

from base64 import b64decode
from datetime import datetime

import msgspec

from multikueue.errors import ConfigurationError
from multikueue.kube.auth.expiry import Validity, validity_of
from multikueue.kube.auth.kubeconfig import KubeconfigUser, parse

__all__ = ["KubeconfigFacts", "kubeconfig_facts"]


class KubeconfigFacts(msgspec.Struct, frozen=True):
    """The server in a stored kubeconfig, and how long its credential is valid; `problem` says why there are none."""

    server: str = ""
    validity: Validity | None = None
    problem: str = ""

    @property
    def expires(self) -> datetime | None:
        return self.validity.end if self.validity else None


def kubeconfig_facts(data: bytes) -> KubeconfigFacts:
    """The server of the current context, and the validity of its token or client certificate if it can be read."""
    try:
        config = parse(data)
        context = dict(config.each_context())[config.current_context or ""]
        cluster = dict(config.each_cluster())[context.cluster or ""]
    except ConfigurationError as error:
        return KubeconfigFacts(problem=str(error))
    except KeyError:
        return KubeconfigFacts(problem="the kubeconfig has no current context with a cluster")
    user = dict(config.each_user()).get(context.user or "", KubeconfigUser())
    return KubeconfigFacts(server=cluster.server or "", validity=_validity(user))


def _validity(user: KubeconfigUser) -> Validity | None:
    """None for a credential without an end (a static token), and for one that cannot be read."""
    try:
        return validity_of(user.token or "", b64decode(user.client_certificate_data or ""))
    except ValueError:
        return None
