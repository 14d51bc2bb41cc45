"""Where copies must be: one workload's case in, the phase, the new local status and the plan for its workers out.

Pure. `case` is the input, with its phase from an ordered table of predicates; `decide` the table of handlers and
`handlers` what they do; `copies` the desired state on workers and the actions that remain there; `nomination` the input
of the strategy, `strategy_call` its guarded call. `controllers` calls `decide` with the strategy's result in the case,
writes the status it returns, and lets each worker's outbox perform the actions.
"""
