"""The bill of materials, as uv writes it, without what differs each time: a random number and the time of writing."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

__all__ = ["settled"]


def settled(bill: bytes, *, epoch: int) -> bytes:
    """The same CycloneDX document with a serial number made of its contents, and the time `epoch`, in seconds."""
    document: dict[str, Any] = json.loads(bill)
    document["metadata"]["timestamp"] = datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")
    document.pop("serialNumber", None)
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True)).urn
    numbered = {"bomFormat": document.pop("bomFormat"), "serialNumber": number}
    return json.dumps(numbered | document, indent=2).encode() + b"\n"
