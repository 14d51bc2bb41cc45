"""One cycle over the heads of all queues: flavors, order, reservations, evictions (quota-engine 3).

`cycle` decides, purely; `scheduler` takes up what was decided and assumes it until the statuses show it. Here belong what a
head is given (`flavors`, `partial`, `slices`), the order under fair sharing (`tournament`), and who may pass a head
(`backfill`).
"""
