"""AdmissionCheck and MultiKueueConfig to the check's Active condition (contract 1.4)."""

from __future__ import annotations

import msgspec

from multikueue.api.kinds import ADMISSION_CHECKS
from multikueue.api.kueue.admission_checks import ACTIVE, CONTROLLER_NAME, AdmissionCheck
from multikueue.api.meta import Condition, ObjectKey, is_true
from multikueue.api.multikueue.clusters import clusters_of
from multikueue.controllers.reconcile.conditions import active, write_condition
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.runtime import DONE, Result


class Checks(msgspec.Struct, frozen=True):
    """Reconciles the admission checks that name our controller."""

    context: ReconcileContext

    async def reconcile(self, name: str) -> Result:
        check = self.context.store.checks.get(ObjectKey("", name))
        if check is not None and check.spec.controller_name == CONTROLLER_NAME:
            cache, now = self.context.store.checks, self.context.now()
            condition = self._condition(check, wrong=await self.context.strategies.problem_of(check))
            await write_condition(self.context, ADMISSION_CHECKS, cache, check, condition, now)
        return DONE

    def _condition(self, check: AdmissionCheck, *, wrong: str) -> Condition:
        generation = check.metadata.generation
        problem = self._problem(check)
        if problem:
            message = f"Cannot load the AdmissionChecks parameters: {problem}"
            return active(is_active=False, reason="BadConfig", message=message, generation=generation)
        if wrong:
            return active(is_active=False, reason="BadStrategy", message=wrong, generation=generation)
        names = self.context.store.clusters_for(check)
        missing, inactive = self._unusable(names)
        parts = (("Missing clusters", missing), ("Inactive clusters", inactive))
        message = ", ".join(f"{title}: [{' '.join(found)}]" for title, found in parts if found)
        if not message:
            return active(
                is_active=True, reason="Active", message="The admission check is active", generation=generation
            )
        usable = len(missing) + len(inactive) < len(names)
        reason = "SomeActiveClusters" if usable else "NoUsableClusters"
        return active(is_active=usable, reason=reason, message=message, generation=generation)

    def _problem(self, check: AdmissionCheck) -> str:
        parameters = check.spec.parameters
        if parameters is None:
            return "missing parameters reference"
        if (parameters.api_group, parameters.kind) != ("kueue.x-k8s.io", "MultiKueueConfig"):
            return "bad parameters reference"
        config = self.context.store.configs.get(ObjectKey("", parameters.name))
        if config is None:
            return f'MultiKueueConfig.kueue.x-k8s.io "{parameters.name}" not found'
        return "" if clusters_of(config) else f'MultiKueueConfig "{parameters.name}" names no cluster'

    def _unusable(self, names: tuple[str, ...]) -> tuple[list[str], list[str]]:
        found = {name: self.context.store.clusters.get(ObjectKey("", name)) for name in names}
        missing = [name for name, cluster in found.items() if cluster is None]
        inactive = [n for n, c in found.items() if c is not None and not is_true(c.status.conditions, ACTIVE)]
        return missing, inactive
