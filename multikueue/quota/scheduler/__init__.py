"""One cycle over the heads of all queues: flavors, order, reservations, evictions (quota-engine 3).

`cycle` decides, purely; `scheduler` applies the decisions and assumes them until the statuses show them. `flavors`,
`partial` and `slices` say what a head gets, `fair_sharing_iterator` gives the order under fair sharing, and `backfill`
says which workloads may pass a head.
"""
