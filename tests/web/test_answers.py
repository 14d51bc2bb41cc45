"""Documents that say why workloads do not run."""

from __future__ import annotations

from multikueue.answers.answer import JobAnswer
from multikueue.quota.visibility.explain import Ending, Explanation
from multikueue.web.answers import ELSEWHERE, answers, explanation, own_names
from multikueue.web.visibility import EXPLANATIONS, Answers, Explain, parse_request
from tests.builders import workload


def test_workloads_of_other_namespaces_keep_their_names() -> None:
    endings = (Ending(workload="team/mine", cluster_queue="cq"), Ending(workload="others/x", cluster_queue="cq"))
    found = Explanation(workload="team/a", cluster_queue="cq", behind="others/first", endings=endings)
    told = JobAnswer(job="job/a", state="Pending", summary="Pending: it waits.")
    body = explanation(Explain(namespace="team", name="a"), own_names(found, "team"), (), told)
    assert body["answer"] == {"job": "job/a", "state": "Pending", "summary": "Pending: it waits.", "obstacles": []}
    assert body["metadata"] == {"name": "a", "namespace": "team"}
    assert body["quota"]["behind"] == ELSEWHERE
    assert [each["workload"] for each in body["quota"]["endings"]] == ["team/mine", ELSEWHERE]


def test_the_answers_of_a_namespace_say_of_which_versions_they_are() -> None:
    path = f"/apis/{EXPLANATIONS}/v1alpha1/namespaces/team/answers"
    assert parse_request(path, {}) == Answers(namespace="team")
    told = JobAnswer(job="job/a", state="Pending", summary="Pending: it waits.")
    body = answers([(workload("a", namespace="team").version(7).build(), told)], is_partial=True)
    (item,) = body["items"]
    assert (body["kind"], body["partial"]) == ("WorkloadAnswerList", True)
    assert item["metadata"] == {"name": "a", "namespace": "team", "resourceVersion": "7"}
    assert item["answer"]["summary"] == "Pending: it waits."
    assert "partial" not in answers([], is_partial=False)
