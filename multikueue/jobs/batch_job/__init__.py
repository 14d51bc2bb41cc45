"""batch/v1 Job, as in Kueue's pkg/controller/jobs/job.

`adapter` is the way in. Beside it: the size of a Job, its pod template, its pod set info, the status that comes home from a
worker (`status`), and the workload slices of an elastic Job (`slices`).
"""
