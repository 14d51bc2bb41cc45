from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from multikueue.api.meta import Condition
from multikueue.jobs.kinds.declared.state_rules import StateRule, condition, state_of, with_end

DONE = StateRule(at="status.phase", values=("Done", "Gone"), message="status.message")
WELL = StateRule(at="status.result", values=("good",), given=DONE)
EMPTY = StateRule(at="status.jobs", unless=DONE)


@pytest.mark.parametrize(
    ("state", "status", "holds"),
    [
        pytest.param(DONE, {"phase": "Gone"}, True, id="one of the values"),
        pytest.param(DONE, {"phase": "Going"}, False, id="another value"),
        pytest.param(DONE, {}, False, id="nothing said"),
        pytest.param(WELL, {"phase": "Done", "result": "good"}, True, id="both"),
        pytest.param(WELL, {"phase": "Going", "result": "good"}, False, id="without what must be given"),
        pytest.param(EMPTY, {"jobs": ["a"]}, True, id="anything at all"),
        pytest.param(EMPTY, {"jobs": []}, False, id="nothing in it"),
        pytest.param(EMPTY, {"jobs": ["a"], "phase": "Done"}, False, id="with what must not be"),
        pytest.param(condition("Ready"), {"conditions": [{"type": "Ready", "status": "True"}]}, True, id="a condition"),
        pytest.param(
            condition("Ready"), {"conditions": [{"type": "Ready", "status": "False"}]}, False, id="a false one"
        ),
    ],
)
def test_a_state_holds(state: StateRule, status: dict[str, Any], holds: bool) -> None:
    assert state.is_true({"status": status}) is holds


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Completed", condition("Completed")),
        ("status.phase=Done|Gone", StateRule(at="status.phase", values=("Done", "Gone"))),
        ("", None),
    ],
    ids=["the type of a condition", "a field and its values", "nothing"],
)
def test_settings_name_a_state_in_one_line(text: str, state: StateRule | None) -> None:
    assert state_of(text) == state


def test_an_end_is_told_in_the_words_of_the_kind() -> None:
    end = Condition(
        type="Finished",
        status="True",
        reason="Succeeded",
        message="so it was",
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
    )
    status = with_end({"phase": "Going", "jobs": ["a"]}, WELL, end)
    assert status == {"phase": "Done", "message": "so it was", "result": "good", "jobs": ["a"]}
    assert WELL.is_true({"status": status})
    (said,) = with_end({"conditions": [{"type": "Ready", "status": "False"}]}, condition("Ready"), end)["conditions"]
    assert (said["type"], said["status"], said["message"]) == ("Ready", "True", "so it was")


def test_what_must_not_be_is_no_more_once_an_end_is_told() -> None:
    over = StateRule(at="status.phase", values=("Failed",), unless=condition("Deployed"))
    end = Condition(type="Finished", status="True", reason="Failed", message="")
    before = {"conditions": [{"type": "Deployed", "status": "True"}, {"type": "Other", "status": "True"}]}
    status = with_end(before, over, end)
    assert over.is_true({"status": status})
    assert [each["type"] for each in status["conditions"]] == ["Other"]


def test_an_end_that_a_reason_tells_is_what_will_not_come() -> None:
    over = StateRule(at="status.conditions[type=Ready].reason", values=("Refused", "Late"))
    end = Condition(type="Finished", status="True", reason="Failed", message="so it was")
    status = with_end({"conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}]}, over, end)
    assert over.is_true({"status": status})
    (said,) = status["conditions"]
    assert (said["type"], said["status"], said["reason"], said["message"]) == ("Ready", "False", "Refused", "so it was")


def test_all_its_paths_are_known() -> None:
    assert list(WELL.paths()) == ["status.result", "status.phase", "status.message"]
