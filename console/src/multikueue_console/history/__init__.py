"""The console's memory: which workload ran where and when, who waited, and who used how much, in bounded space.

`story` reads what happened from a Workload as it is shown now, `runs` has the values, `use` their sums by hour. `store` keeps
them in SQLite or PostgreSQL, `recorder` feeds it from a watch, `outlook` estimates from run times seen when a job will start.
"""
