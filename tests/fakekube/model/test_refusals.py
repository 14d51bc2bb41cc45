"""How a server says no."""

from __future__ import annotations

import pytest

from fakekube.model import refusals
from fakekube.model.wire import Refused, status_body
from tests.fakekube.front_ends import PODS, TOYS


@pytest.mark.parametrize(
    ("refusal", "code", "reason", "message", "details"),
    [
        (refusals.not_found(PODS, "a"), 404, "NotFound", 'pods "a" not found', {"name": "a", "kind": "pods"}),
        (
            refusals.already_exists(TOYS, "a"),
            409,
            "AlreadyExists",
            'toys.example.com "a" already exists',
            {"name": "a", "group": "example.com", "kind": "toys"},
        ),
        (
            refusals.already_exists(PODS, "a", is_dying=True),
            409,
            "AlreadyExists",
            'object is being deleted: pods "a" already exists',
            {"name": "a", "kind": "pods"},
        ),
        (
            refusals.conflict(TOYS, "a", "why", noun="Toy"),
            409,
            "Conflict",
            'Operation cannot be fulfilled on Toy.example.com "a": why',
            {"name": "a", "group": "example.com", "kind": "Toy"},
        ),
        (refusals.forbidden(PODS, "", "why"), 403, "Forbidden", "pods is forbidden: why", {"kind": "pods"}),
        (
            refusals.too_large_version(9, 5),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 5",
            {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        ),
    ],
)
def test_words(refusal: Refused, code: int, reason: str, message: str, details: object) -> None:
    body = status_body(refusal)
    assert (body["code"], body["reason"], body["message"], body["details"]) == (code, reason, message, details)


def test_several_problems_are_told_together_and_each_once() -> None:
    one, other = refusals.required("a"), refusals.immutable("b", None)
    refusal = refusals.invalid("example.com", "Toy", "x", [one, other, one])
    assert refusal.message == (
        'Toy.example.com "x" is invalid: [a: Required value, b: Invalid value: null: field is immutable]'
    )
    assert len(refusal.causes) == 3


def test_a_token_to_go_on_with() -> None:
    assert status_body(refusals.expired("old", token="x"))["metadata"] == {"continue": "x"}
