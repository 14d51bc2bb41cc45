"""Tests of the quota room. Tests of scenarios bear their numbers, QE-001 to QE-355 (quota-scenarios 9).

The scenarios are in scenarios.md beside this file.

These have no test, for there is nothing to test:

- QE-021, QE-037, QE-136, QE-256, QE-257, QE-285: a feature gate is off. We have Kueue's defaults and no gates.
- QE-053, QE-283, QE-284, QE-286, QE-321, QE-351 to QE-355: later than Kueue 0.16.
- QE-295: a flush in the middle of a cycle. Ours is one synchronous step.
- QE-310: the order within a snapshot. There is none: a cycle looks at the tree itself.
- QE-311: a second pass for topologies. Workers place pods, the manager does not.

Others are tests of other rooms: QE-023 (a conflict is looked at again), QE-243, QE-327 and QE-337 of controllers, QE-350 of
web, QE-356 to QE-359 of jobs, QE-360 of the real suite.
"""
