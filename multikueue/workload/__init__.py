"""What becomes of one workload: its case in, the phase, the new local status and the plan for its workers out.

Pure. `case` is all that is known of it; `life` has the rules for its quota and checks, `phases` ordered tables of
predicates for its dispatch; `decide` has the table of handlers, `handlers` a function for each phase. `nomination` is the
input of the strategy, `strategy_call` its guarded call. `controllers` calls `decide` with the strategy's result.
"""
