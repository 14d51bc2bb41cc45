"""Where copies must be: one workload's group in, the phase, the new local status and the remote actions out.

Pure. `group` is what is seen, `phases` the ordered table of predicates, `decide` the handlers, `remote` what a copy looks
like, `actions` what a worker's outbox performs, `question` what the strategy is asked, `consult` the guarded asking;
its answer comes with the group. `controllers` calls
`decide`, writes the status it returns, and lets each worker's outbox perform that worker's actions.
"""
