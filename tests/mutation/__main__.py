"""Takes guards out, one at a time, and says which mutants survive: no test fails without the guard.

The tests that mirror a module come first, then for the survivors those beside them, those of the room, and `LAST`. Kills are
kept in `build/mutants` until the module changes, so a run that was stopped goes on; each run tries survivors again.

Without arguments the guards of `tests.mutation.guards`; with rooms or modules (`dispatch`, `multikueue/store/plans.py`) all
functions there. The exit code is 1 if a mutant of a guard survives.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import cosmic_ray.plugins
import msgspec
from cosmic_ray.commands.init import init
from cosmic_ray.mutating import mutate_code
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

from tests.mutation.guards import EQUIVALENT, GUARDS, guards_in
from tests.mutation.judge import MUTANTS, Mutants, Verdict, can_be_planted
from tests.mutation.operators import Guards
from tests.test_layout import ROOT, expected_test

BUILT = ROOT / "build" / "mutants"

CORE = (
    "ExceptionReplacer",
    "ReplaceBreakWithContinue",
    "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue",
    "ReplaceTrueWithFalse",
    "ReplaceUnaryOperator_Delete_Not",
    "ZeroIterationForLoop",
)
"""The operators of Cosmic Ray that change what is guarded."""

LARGE = ("controllers", "quota")
"""Packages whose folders are rooms of their own."""

NEAR = 2

LAST = "tests/controllers/workloads"
"""Where all decisions come together."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """Where it is and what was changed, and whether that is in a guard."""

    text: str
    is_guard: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """How many mutants a module had, and who survived."""

    judged: int
    survivors: tuple[Survivor, ...]

    @property
    def killed(self) -> int:
        return self.judged - len(self.survivors)


class Chosen:
    """Those of Cosmic Ray's own operators that are used."""

    def __init__(self) -> None:
        self._all = cosmic_ray.plugins.OPERATOR_PROVIDERS["core"]

    def __iter__(self) -> Iterator[str]:
        return iter(CORE)

    def __getitem__(self, name: str) -> object:
        return self._all[name]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("places", nargs="*", help="rooms or modules; without any, all guards")
    parser.add_argument("--guards", action="store_true", help="of these places the guards alone")
    parser.add_argument("--near", action="store_true", help="only by tests that mirror the module, and those beside")
    asked = parser.parse_args()
    os.chdir(ROOT)
    cosmic_ray.plugins.OPERATOR_PROVIDERS.update(core=Chosen(), ours=Guards())
    _check_examples()
    BUILT.mkdir(parents=True, exist_ok=True)
    found = [_judge(module, asked.guards or not asked.places, asked.near) for module in _modules(asked.places)]
    rate = f"{sum(each.killed for each in found)} of {sum(each.judged for each in found)} killed"
    left = [survivor for each in found for survivor in each.survivors]
    in_guards = sum(survivor.is_guard for survivor in left)
    print(f"\n{rate}, {len(left)} survive, {in_guards} of them in guards")
    return 1 if in_guards else 0


def _check_examples() -> None:
    for name in Guards():
        operator = Guards()[name]
        for example in operator.examples():
            made = mutate_code(example.pre_mutation_code, operator(), example.occurrence)
            assert made == example.post_mutation_code, (name, example, made)


def _modules(places: Sequence[str]) -> list[str]:
    if not places:
        return list(dict.fromkeys(guard.module for guard in GUARDS))
    found = [ROOT / place if place.endswith(".py") else ROOT / "multikueue" / place for place in places]
    files = [each for path in found for each in ([path] if path.is_file() else sorted(path.rglob("*.py")))]
    return [str(each.relative_to(ROOT)) for each in files if each.name != "__init__.py"]


def _judge(module: str, only_guards: bool, only_near: bool) -> Judged:
    text = Path(module).read_text()
    file, kept = (BUILT / f"{module.replace('/', '.')}{suffix}" for suffix in (".sqlite", ".kept"))
    with use_db(str(file), WorkDB.Mode.create) as kills:
        if not kept.exists() or kept.read_text() != text:
            init([Path(module)], kills, {})
            kept.write_text(text)
        items = {each.job_id: each for each in kills.work_items if _is_wanted(each, only_guards)}
        known = {job for job, _ in kills.results}
        left = {job: _mutated(text, item) for job, item in items.items() if job not in known}
        left = {job: mutated for job, mutated in left.items() if _is_a_fault(module, text, mutated)}
        judged = len(left) + len(known & set(items))
        for tests in _judges(module)[: NEAR if only_near else None]:
            for verdict in _verdicts(tests, Mutants(module, left)) if left else ():
                if verdict.killed:
                    kills.set_result(verdict.name, WorkResult(WorkerOutcome.NORMAL, test_outcome=TestOutcome.KILLED))
                    del left[verdict.name]
    found = Judged(judged, tuple(_survivor(module, text, mutated, items[job]) for job, mutated in left.items()))
    print(
        f"{module}: {found.killed} of {judged} killed", *(each.text for each in found.survivors), sep="\n", flush=True
    )
    return found


def _is_wanted(item: WorkItem, only_guards: bool) -> bool:
    """Whether it is in a function, and if so in a guard."""
    mutation = item.mutations[0]
    is_guard = any(guard.has(mutation.definition_name) for guard in guards_in(str(mutation.module_path)))
    return mutation.definition_name is not None and (is_guard or not only_guards)


def _mutated(text: str, item: WorkItem) -> str:
    mutation = item.mutations[0]
    operator = cosmic_ray.plugins.get_operator(mutation.operator_name)()
    return str(mutate_code(text, operator, mutation.occurrence))


def _judges(module: str) -> list[str]:
    """Files and folders of tests, the nearest first."""
    path = Path(module)
    mirror, beside = expected_test(path), Path("tests", *path.parts[1:-1])
    room = Path("tests", *path.parts[1 : 3 if path.parts[1] in LARGE else 2])
    return list(dict.fromkeys(str(each) for each in (mirror, beside, room, LAST)))


def _verdicts(tests: str, mutants: Mutants) -> list[Verdict]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "mutants.json")
        file.write_bytes(msgspec.json.encode(mutants))
        options = ("-q", "-x", "-s", "-p", "no:cacheprovider", "-p", "tests.mutation.judge", "-o", "timeout=600")
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, tests],
            env={**os.environ, MUTANTS: str(file)},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        lines = file.with_suffix(".verdicts").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Verdict) for line in lines]


def _survivor(module: str, text: str, mutated: str, item: WorkItem) -> Survivor:
    mutation = item.mutations[0]
    is_guard = any(guard.has(mutation.definition_name) for guard in guards_in(module))
    where = f"{module}:{mutation.start_pos[0]} {mutation.definition_name}{' (guard)' if is_guard else ''}"
    return Survivor("\n    ".join((where, *_changed(text, mutated))), is_guard)


def _is_a_fault(module: str, text: str, mutated: str) -> bool:
    added = [line[1:].strip() for line in _changed(text, mutated) if line.startswith("+")]
    return (module, " ".join(added)) not in EQUIVALENT and can_be_planted(text, mutated)


def _changed(text: str, mutated: str) -> list[str]:
    lines = unified_diff(text.splitlines(), mutated.splitlines(), lineterm="", n=0)
    return [line for line in lines if line[:1] in "-+" and line[:3] not in ("---", "+++")]


if __name__ == "__main__":
    sys.exit(main())
