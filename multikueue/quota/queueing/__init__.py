"""Who waits for quota, in which order, and who is parked until something changes (quota-engine 2).

`queue_manager` is the way in: it knows the line of each ClusterQueue (`pending`; `turns` where LocalQueues take turns) and
wakes what is parked. It tells the cache which trees are worth another look; the scheduler takes the heads.
"""
