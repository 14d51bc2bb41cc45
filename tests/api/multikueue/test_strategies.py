"""The strategy that an AdmissionCheck names."""

from __future__ import annotations

import pytest

from multikueue.api.multikueue.strategies import OPTIONS_ANNOTATION, STRATEGY_ANNOTATION, strategy_of
from multikueue.errors import ConfigurationError
from tests.builders import admission_check


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({STRATEGY_ANNOTATION: "incremental"}, ("incremental", {})),
        ({STRATEGY_ANNOTATION: "incremental", OPTIONS_ANNOTATION: '{"step": 2}'}, ("incremental", {"step": 2})),
    ],
    ids=["none", "a name", "a name with options"],
)
def test_a_check_names_a_strategy(annotations: dict[str, str], expected: object) -> None:
    assert strategy_of(admission_check("c").annotations(annotations).build()) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({OPTIONS_ANNOTATION: "{}"}, f"expected annotation {STRATEGY_ANNOTATION} beside it"),
        ({STRATEGY_ANNOTATION: "x", OPTIONS_ANNOTATION: "[]"}, r"expected a JSON object, got '\[\]'"),
        ({STRATEGY_ANNOTATION: "x", OPTIONS_ANNOTATION: "[" * 5000}, "expected a JSON object"),
    ],
    ids=["options alone", "options of another form", "options nested too deeply"],
)
def test_what_cannot_be_options_is_named_with_its_check(annotations: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=f"AdmissionCheck c: annotation {OPTIONS_ANNOTATION}: {expected}"):
        strategy_of(admission_check("c").annotations(annotations).build())
