"""A kind as written in the settings, to its declaration."""

from __future__ import annotations

from multikueue.jobs.integrations.external import plural
from multikueue.jobs.kinds.declared.declaration import Declaration, Rule
from multikueue.jobs.kinds.declared.pod_sets import AddedOverhead, DeclaredContainer, Pods
from multikueue.jobs.kinds.declared.state_rules import StateRule, state_of
from multikueue.settings import DeclaredKind, DeclaredOverhead, DeclaredPods, DeclaredRule

__all__ = ["declaration_of"]


def declaration_of(own: DeclaredKind) -> Declaration:
    """The declaration of a kind. Raises ValueError for an invalid path."""
    kind, version, group = own.name.split(".", 2)
    return Declaration(
        framework=own.name,
        group=group,
        version=version,
        plural=own.plural or plural(kind),
        kind=kind,
        pods=tuple(map(_pods, own.pods)),
        suspend=own.suspend,
        managed_by=own.managed_by,
        managers=own.managers,
        succeeded=state_of(own.succeeded),
        failed=state_of(own.failed),
        active_counts=own.active_counts,
        active_states=tuple(filter(None, (state_of(own.active),))),
        dropped=own.dropped,
        rules=tuple(map(_rule, own.rules)),
    )


def _rule(own: DeclaredRule) -> Rule:
    return Rule(StateRule(at=own.at, values=own.values), own.why, is_needed=own.needed)


def _pods(own: DeclaredPods) -> Pods:
    container = DeclaredContainer(
        name=own.container,
        requests=_amounts(own.requests),
        limits=_amounts(own.limits),
        overhead=_overhead(own.overhead) if own.overhead is not None else None,
    )
    return Pods(
        at=own.at,
        template="" if own.container else own.template,
        name=own.name,
        name_at=own.name_at,
        count=own.count,
        otherwise=container if own.container else None,
    )


def _overhead(own: DeclaredOverhead) -> AddedOverhead:
    return AddedOverhead(resource=own.resource, at=own.at, share=str(own.share), least=own.least)


def _amounts(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Resources and paths, as RESOURCE=PATH in settings."""
    return tuple((resource, path) for resource, _, path in (text.partition("=") for text in texts))
