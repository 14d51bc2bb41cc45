"""What the library's models say, and that nothing of it is loaded for that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fakekube.builtins.models import descriptions_of, fields_of


def test_fields_come_by_their_names_in_json_with_their_types() -> None:
    fields = fields_of("V1JobSpec")
    assert fields["backoffLimit"] == "int"
    assert fields["managedBy"] == "str"
    assert fields["template"] == "V1PodTemplateSpec"
    assert fields_of("V1PodSpec")["containers"] == "list[V1Container]"
    assert fields_of("V1ObjectMeta")["labels"] == "dict(str, str)"


def test_fields_come_with_what_the_library_says_of_them() -> None:
    described = descriptions_of("V1JobSpec")
    assert described.keys() == fields_of("V1JobSpec").keys()
    assert described["managedBy"].startswith("ManagedBy field indicates the controller that manages a Job.")
    assert not any("noqa" in text or ":return" in text for text in described.values())
    assert descriptions_of("V1Job")["spec"] == ""


@pytest.mark.parametrize(
    "model", ["V1APIService", "CoreV1Event", "EventsV1Event", "V1JSONSchemaProps", "V1FCVolumeSource"]
)
def test_a_model_is_found_however_its_name_is_spelled(model: str) -> None:
    assert fields_of(model)


def test_a_keyword_of_python_is_a_field_like_any_other() -> None:
    assert fields_of("V1JSONSchemaProps")["not"] == "V1JSONSchemaProps"


def test_an_unknown_model_is_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        fields_of("V1Nonsense")


PROGRAM = """
import sys
from fakekube.builtins.models import fields_of
assert fields_of("V1ConfigMap")["data"] == "dict(str, str)"
print(len([name for name in sys.modules if name.startswith("kubernetes_asyncio")]))
"""


def test_the_library_itself_is_not_loaded() -> None:
    """Who comes later and wants it, whole or in parts, finds it as if nobody had been there."""
    answer = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert int(answer.stdout) == 0
