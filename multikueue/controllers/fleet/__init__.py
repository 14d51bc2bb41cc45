"""The running manager's part in keeping a fleet, only loaded where the settings of the group `fleet` ask for it.

`membership` keeps the workers equal to an inventory, by the plan of `registration.fleet`; `inventories` watches that inventory.
`worker_queues` makes the queues that workers lack, by that of `registration.queues`. All of it acts on the leader only.
"""
