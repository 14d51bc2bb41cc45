"""What a decision looks at: the workers that a workload concerns, and the fleet as one value for all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api.kueue.workload import ORIGIN_LABEL, PREBUILT_LABEL
from multikueue.api.meta import ObjectKey, decoder
from multikueue.api.multikueue.clusters import CORDON_ANNOTATION
from multikueue.dispatch.remote import Asked, Reach, Unfit
from multikueue.jobs.integrations.external import external
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.store.views import Views
from multikueue.workload.case import MAX_NOMINATED
from multikueue.workload.decision_rules import DecisionRules
from tests.builders import NOW, job, multikueue_cluster, multikueue_config, workload
from tests.store.known import KEY, case_in, local, not_seen_yet, stored


def test_a_group_has_the_workers_in_the_order_of_the_configuration() -> None:
    store, _ = stored()
    store.workloads.upsert(local().nominated("w2", "w1").version(2).build())
    case = case_in(store)
    assert [r.cluster for r in case.remotes] == [w.name for w in case.fleet.workers] == ["w1", "w2"]
    assert (case.check, case.problem, case.is_job_finished) == ("mk", "", False)


def test_a_worker_outside_the_configuration_that_holds_something_is_in_the_case() -> None:
    store, noted = stored()
    store.worker("w9").workloads.upsert(workload("wl").origin().build())
    assert [(r.cluster, r.is_configured) for r in case_in(store).remotes][-1] == ("w9", False)
    assert noted.keys == ["workload wl"]


def test_the_recorded_winner_is_in_the_case_even_if_nobody_knows_it() -> None:
    store, _ = stored()
    store.workloads.upsert(local().check("mk", "Ready").cluster_name("gone").version(7).build())
    (gone,) = [r for r in case_in(store).remotes if r.cluster == "gone"]
    assert (gone.link.reach, gone.link.is_known) == (Reach.SUSPECT, False)


def test_a_cordoned_worker_is_not_usable() -> None:
    store, _ = stored()
    store.clusters.upsert(multikueue_cluster("w1").annotations({CORDON_ANNOTATION: "true"}).version(9).build())
    assert [w.usable for w in case_in(store).fleet.workers] == [False, True]


def test_a_worker_whose_name_goes_to_another_cluster_is_not_usable_and_says_why() -> None:
    store, _ = stored()
    store.worker("w1").leaves("another cluster has its name")
    assert [w.usable for w in case_in(store).fleet.workers] == [False, True]
    assert case_in(store).fleet.workers[0].why == "another cluster has its name"


def test_only_workers_that_it_concerns_are_in_the_group() -> None:
    store, _ = stored()
    assert case_in(store).remotes == ()
    store.workloads.upsert(local().nominated("w2").version(2).build())
    assert [r.cluster for r in case_in(store).remotes] == ["w2"]


def test_a_worker_where_an_attempt_ended_is_in_the_case() -> None:
    store, _ = stored()
    note = "w2 at 2026-01-01T11:00:00Z; gone at 2026-01-01T11:00:00Z"
    store.workloads.upsert(local().condition("multikueue.dev/FailedOn", message=note).version(2).build())
    assert [r.cluster for r in case_in(store).remotes] == ["w2"]


def test_what_was_asked_for_or_refused_or_cannot_be_read_puts_its_worker_in_the_group() -> None:
    store, _ = stored()
    asked, taken = Asked("a", NOW), Unfit("taken", NOW + timedelta(minutes=1))
    store.worker("w1").ask_for_job(KEY, asked)
    store.worker("w2").pass_over(KEY, taken)
    assert [(r.cluster, r.asked, r.unfit) for r in case_in(store).remotes] == [
        ("w1", asked, None),
        ("w2", None, taken),
    ]
    store.worker("w1").expectations.clear()
    store.worker("w2").expectations.clear()
    assert case_in(store).remotes == ()


def test_where_more_may_be_nominated_than_is_recorded_all_are_in_the_group() -> None:
    store, _ = stored()
    names = [f"w{number}" for number in range(MAX_NOMINATED + 5)]
    store.configs.upsert(multikueue_config("mk", *names).version(2).build())
    store.workloads.upsert(local().nominated(*names[:MAX_NOMINATED]).version(2).build())
    assert [r.cluster for r in case_in(store).remotes] == names


@pytest.mark.parametrize("has_life", [True, False], ids=["alone", "beside Kueue"])
def test_of_a_workload_that_others_evicted_each_worker_not_yet_seen_is_in_the_case(*, has_life: bool) -> None:
    store, _ = stored()
    not_seen_yet(store.worker("w2"))
    for version, of in enumerate((local(), local().condition("Evicted", "False", reason="QuotaReserved")), 2):
        store.workloads.upsert(of.version(version).build())
        case = Views(store).case(KEY, DecisionRules(has_life=has_life))
        was_evicted = not has_life and version == 3
        assert (case.may_be_anywhere, [r.cluster for r in case.remotes]) == (
            was_evicted,
            ["w2"] if was_evicted else [],
        )


def test_a_case_is_widened_by_workers_of_its_fleet_only() -> None:
    store, _ = stored()
    case = case_in(store)
    assert [r.cluster for r in Views(store).widened(case, ("w2", "gone")).remotes] == ["w2"]
    assert Views(store).widened(case, ()) is case


def test_the_fleet_is_one_value_until_something_of_it_changes() -> None:
    store, _ = stored()
    fleet = case_in(store).fleet
    store.jobs.upsert(job("other").build())
    store.worker("w1").workloads.upsert(workload("other").origin().build())
    assert case_in(store).fleet is fleet
    store.worker("w1").isolated()
    assert [w.usable for w in case_in(store).fleet.workers] == [False, True]
    store.configs.upsert(multikueue_config("mk", "w2").version(2).build())
    assert [w.name for w in case_in(store).fleet.workers] == ["w2"]


def test_it_is_one_for_each_namespace_where_a_worker_offers_some_only() -> None:
    store, _ = stored()
    store.worker("w1").reported(None, "", NOW, ("default",))
    store.workloads.upsert(
        workload("wl", namespace="elsewhere").queue("main").owner_job("job").reserved("cq").check("mk").build()
    )
    elsewhere = Views(store).case(ObjectKey("elsewhere", "wl"), DecisionRules())
    assert case_in(store).fleet.usable == ("w1", "w2")
    assert elsewhere.fleet.usable == ("w2",)


PIPELINE = external("PipelineRun.v1.tekton.dev")


@pytest.mark.parametrize(
    ("status", "is_over"),
    [(b"{}", True), (b'{"phase":"Running"}', False), (b'{"a":' * 400 + b"{}" + b"}" * 400, False)],
    ids=["as it is here", "with news", "nested too deeply to compare"],
)
def test_a_job_of_a_kind_that_does_not_say_so_is_over_once_its_status_is_that_of_the_winner(
    status: bytes, is_over: bool
) -> None:
    def run(uid: str, labels: str, status: bytes) -> Any:
        spec = b'{"managedBy":"kueue.x-k8s.io/multikueue"}'
        metadata = b'{"name":"run","namespace":"default","uid":"%b","labels":%b}' % (uid.encode(), labels.encode())
        body = b'{"metadata":%b,"spec":%b,"status":%b}' % (metadata, spec, status)
        return decoder(PIPELINE.kind.type)(body)

    store, _ = stored(adapters=Adapters((BATCH_JOB, PIPELINE)))
    owned = workload("wl").owned_by(api_version="tekton.dev/v1", kind="PipelineRun", name="run", uid="here")
    for jobs in (store.jobs, store.worker("w1").jobs):
        jobs.open(PIPELINE.kind)
    store.jobs.upsert(run("here", "{}", b"{}"))
    store.workloads.upsert(owned.check("mk", "Ready").cluster_name("w1").version(9).build())
    mark = f'{{"{ORIGIN_LABEL}":"multikueue","{PREBUILT_LABEL}":"wl"}}'
    store.worker("w1").jobs.upsert(run("there", mark, status))
    assert case_in(store).is_job_finished == is_over


@pytest.mark.parametrize("ago", [timedelta(minutes=15), timedelta(days=365)], ids=str)
def test_a_worker_with_a_copy_that_cannot_be_read_is_never_lost(ago: timedelta) -> None:
    """What cannot be read may run."""
    store, _ = stored()
    store.workloads.upsert(local().nominated("w1").version(5).build())
    worker = store.worker("w1")
    worker.workloads.unreadable[KEY] = "bad JSON"
    worker.suspected(NOW)
    worker.isolated()
    remote = case_in(store).remote("w1")
    assert remote is not None
    assert not remote.is_reachable
    assert not remote.is_lost(NOW + ago, timedelta(minutes=15))
    assert remote.link.lost_at(timedelta(minutes=15)) is None
