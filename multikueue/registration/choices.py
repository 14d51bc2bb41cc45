"""The options of a registration, and their defaults.

A module of its own, so that help and completion of the commands load nothing else.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

__all__ = ["DEFAULT_VALIDITY", "OUR_NAME", "CredentialKind"]

OUR_NAME = "multikueue"

DEFAULT_VALIDITY = timedelta(days=30)
"""The requested validity; the server may grant less."""


class CredentialKind(StrEnum):
    """AUTO is a token, or a certificate if the worker grants no token."""

    AUTO = "auto"
    TOKEN = "token"  # noqa: S105  # the word, not a secret
    CERTIFICATE = "certificate"
