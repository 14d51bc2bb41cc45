"""The tree of settings: the text that help and docs share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from multikueue.settings import Settings, leaves
from multikueue.settings.describe import meanings


def fields(group: type[BaseModel], path: str = "") -> Iterator[tuple[str, str | None]]:
    for name, field in group.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from fields(kind, f"{path}{name}.")
        else:
            yield path + name, meanings(group).get(name)


@pytest.mark.parametrize(("name", "description"), list(fields(Settings)))
def test_every_setting_says_what_it_is(name: str, description: str | None) -> None:
    assert description, name
    assert description.rstrip().endswith((".", ".)")), "a sentence"


def test_there_are_no_more_settings_than_there_were() -> None:
    """Before one more, look for one that nobody has a reason to set."""
    assert len(leaves()) <= 111


def test_no_start_looks_for_the_text_in_the_source() -> None:
    assert not [name for name, field in Settings.model_fields.items() if field.description]
    assert not Settings.model_config.get("use_attribute_docstrings")
