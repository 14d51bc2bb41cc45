"""batch/v1 Job, as in Kueue's pkg/controller/jobs/job.

`adapter` is the entry point. Beside it: the size and pods of a Job with their pod set info (`template`), the status copied
back from a worker (`status`), and the workload slices of an elastic Job (`slices`).
"""
