"""Kinds of jobs that come and go while the manager runs.

`availability` turns a kind on once the manager cluster has it, `crd_annotations` finds kinds that their
CustomResourceDefinitions declare, `declarations` reads what was declared. What a kind is like is in `multikueue.jobs`.
"""
