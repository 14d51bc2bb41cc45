"""Who has to go so that a head fits (quota-engine 3.5, 3.6).

`preemption` is the way in: by priority and who borrows (`classical`), or by share (`fair`). It tries out on the quota tree
and rolls back; what it finds, the scheduler carries out.
"""
