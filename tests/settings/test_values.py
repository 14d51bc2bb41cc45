"""Kinds of values, as settings take them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.errors import ConfigurationError
from multikueue.settings import load
from multikueue.settings.values import label_terms


@pytest.mark.parametrize("given", ["PT15M", "15m", "900", 900, "00:15:00"])
def test_a_setting_takes_durations_in_every_usual_way(given: object) -> None:
    assert load(dispatch__worker_lost_timeout=given).dispatch.worker_lost_timeout == timedelta(minutes=15)


@pytest.mark.parametrize(
    "text", ["", "10", "cpu", "-1%", "101%", "1.5%", "=1", "cpu=", "cpu=x", "cpu=-1", "1%,2%", "a=1,a=2"]
)
def test_a_reserve_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"capacity_follow\.reserve: expected a percentage, resources with"):
        load(capacity_follow__reserve=text)


@pytest.mark.parametrize("text", ["", "a b", "/team", "example.com/", "Example.com/team", "a/b/c", "-team", "x" * 64])
def test_what_can_be_no_key_of_a_label_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"integrations\.label_keys_to_copy\[0\]: expected the key of a label"):
        load(integrations__label_keys_to_copy=[text])


def test_keys_of_labels_are_read_as_a_list_or_in_one_line() -> None:
    given = ["team", "example.com/Cost_center"], "team, example.com/Cost_center"
    found = [load(integrations__label_keys_to_copy=each).integrations.label_keys_to_copy for each in given]
    assert found == [("team", "example.com/Cost_center")] * 2


TERMS = {
    "a=b": ("a", "In", ("b",)),
    "a==b": ("a", "In", ("b",)),
    "a!=b": ("a", "NotIn", ("b",)),
    "x.io/a in (b, c)": ("x.io/a", "In", ("b", "c")),
    "a notin (b)": ("a", "NotIn", ("b",)),
    "a": ("a", "Exists", ()),
    "!a": ("a", "DoesNotExist", ()),
    "a=": ("a", "In", ("",)),
}


@pytest.mark.parametrize("text", TERMS)
def test_a_label_selector_is_written_as_for_kubectl(text: str) -> None:
    assert label_terms(text) == (TERMS[text],)
    assert label_terms(f" {text} , z in (1,2)") == (TERMS[text], ("z", "In", ("1", "2")))


@pytest.mark.parametrize("text", ["a b", "a=b c", "in (a)", "a in b", "a in (b", "=b", "a=b=c", "-a", "a=-"])
def test_what_is_no_label_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        label_terms(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"fleet__drain": "requeue=1h"}, r"fleet\.drain: expected requeue, wait, or wait or signal with a time"),
        ({"fleet__drain": "wait="}, r"fleet\.drain: expected requeue, wait, or wait or signal with a time"),
        ({"fleet__most_leaving": "120%"}, r"fleet\.most_leaving: expected a percentage or a number"),
        ({"fleet__most_leaving": "-1"}, r"fleet\.most_leaving: expected a percentage or a number"),
        ({"fleet__secret": "kubeconfig"}, r"fleet\.secret: expected the name of an object with \{cluster\} in it"),
        ({"fleet__server": "https://proxy"}, r"fleet\.server: expected a URL that starts with https:// and has"),
        ({"fleet__selector": "a in b"}, r"fleet\.selector: expected a label selector"),
    ],
    ids=[*("another word", "no time", "too large a share", "too small a number"), "one name", "one URL", "no selector"],
)
def test_what_says_nothing_of_a_fleet_is_refused(given: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        load(**given)  # type: ignore[arg-type]


def test_a_fleet_is_asked_for_by_its_inventory() -> None:
    found = load(
        fleet__inventory="ocm", fleet__drain="wait=8h", fleet__most_leaving="5", fleet__tolerations="a,b/c"
    ).fleet
    assert (found.inventory, found.drain, found.most_leaving, found.tolerations) == (
        "ocm",
        "wait=8h",
        "5",
        ("a", "b/c"),
    )
