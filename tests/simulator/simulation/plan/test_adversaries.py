"""A share of the seeds has adversaries; whatever else a seed has, it has as before."""

from __future__ import annotations

from dataclasses import replace

from multikueue_simulator.simulation.plan import adversaries as acts
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.adversaries import DropCheck, OddJob, Slander, beset, control
from multikueue_simulator.simulation.plan.draw import _Draft, drawn
from multikueue_simulator.simulation.plan.partial import Partial
from multikueue_simulator.simulation.plan.plan import Adversity, Crash, Plan

SEEDS = range(1500)


def has_parts(plan: Plan) -> bool:
    """Whether a plan has faults of a part, which are drawn last, and come with what they need."""
    return len(plan.workers) > 20 or any(isinstance(act, Partial) for act in plan.adversaries)


BESET = [plan for plan in map(drawn, SEEDS) if plan.adversaries and not has_parts(plan)]


def test_a_share_of_the_seeds_has_adversaries_and_half_of_those_nothing_else() -> None:
    alone = [plan for plan in BESET if not plan.events]
    assert 0.08 < len(BESET) / len(SEEDS) < 0.2
    assert 0.3 < len(alone) / len(BESET) < 0.8
    acting = [plan for plan in BESET if not all(isinstance(act, acts.Impersonate) for act in plan.adversaries)]
    assert not any(plan.layout.core for plan in acting)


def test_nothing_else_of_a_seed_moves() -> None:
    for seed in range(300):
        bare, plan = _Draft(seed).plan(), drawn(seed)
        if has_parts(plan) or any(job.completions for job in plan.jobs):  # these have draws of their own
            continue
        assert plan.events in (bare.events, ())
        jobs = tuple(job for job in plan.jobs if not job.room)  # what fits nowhere has a draw of its own
        assert replace(plan, adversaries=(), events=bare.events, jobs=jobs) == bare


def test_a_seed_has_the_same_adversaries_each_time() -> None:
    bare = _Draft(BESET[0].seed).plan()
    assert beset(bare) == beset(bare) == BESET[0]


def test_every_kind_and_every_oddity_comes_up() -> None:
    kinds = {kind for name in acts.__all__ if isinstance(kind := getattr(acts, name), type)}
    oddities = {
        acts.OddJob: acts.ODD_JOBS,
        acts.HandMade: acts.HAND_MADE,
        acts.Slander: acts.SLANDERS,
        acts.OddAnswers: acts.ANSWERS,
        acts.OddCluster: acts.KUBECONFIGS,
        acts.Mislay: acts.IN_USE,
        acts.Mangle: acts.SPOILED,
    }
    missing: set[object] = {kind for kind in kinds if issubclass(kind, Adversity)}
    missing |= {(kind, what) for kind, each in oddities.items() for what in each}

    for act in (act for plan in map(drawn, range(8000)) for act in plan.adversaries):
        missing -= {type(act), (type(act), getattr(act, "what", None))}
        if not missing:
            break

    assert missing == set()


def test_what_is_drawn_can_be_told_and_is_in_order() -> None:
    for plan in BESET:
        assert all(act.describe() for act in plan.adversaries)
        assert [act.at for act in plan.adversaries] == sorted(act.at for act in plan.adversaries)
        assert plan.ends >= max(act.at + act.lasts for act in plan.adversaries)


def test_a_tenant_chooses_a_worker_that_no_admin_does() -> None:
    chosen = [(plan, act) for plan in BESET for act in plan.adversaries if isinstance(act, acts.Choose)]
    assert chosen
    assert all(plan.layout.placement and act.worker not in acts.decided(plan) for plan, act in chosen)


def test_names_of_clusters_are_not_played_with_by_two_at_a_time() -> None:
    names = (acts.SecondName, acts.MixUp)
    for plan in BESET:
        if any(isinstance(act, names) for act in plan.adversaries):
            assert not any(isinstance(event, plans.ForgetCluster) for event in plan.events)


TENANT = OddJob(at=1.0, name="odd", what="digits")
WORKER = Slander(at=2.0, lasts=30.0, worker="worker1", what="long")


def test_what_a_life_is_compared_with_has_what_adversaries_may_cost_others() -> None:
    plan = Plan(seed=1, adversaries=(TENANT, WORKER))
    allowed = plans.RestartKueue(at=2.0, lasts=30.0, worker="worker1")
    assert control(plan) == Plan(seed=1, events=(allowed,))


def test_some_lives_are_compared_with_none() -> None:
    assert control(Plan(seed=1)) is None
    assert control(Plan(seed=1, adversaries=(TENANT,), events=(Crash(at=1.0),))) is None
    assert control(Plan(seed=1, adversaries=(TENANT, DropCheck(at=1.0, queue="main")))) is None
