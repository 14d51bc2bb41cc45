"""What people see of queues, workloads and clusters: a console beside the manager, with the rights of who looks.

It has a process of its own and asks nothing of the manager but what anybody may ask. Rooms, from below to above: `model` is
pure, `watch` keeps it fresh, `history` remembers what is over, `web` and `terminal` show it, `commands` has the entry points.
"""
