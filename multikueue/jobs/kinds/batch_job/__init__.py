"""batch/v1 Job, as in Kueue's pkg/controller/jobs/job.

`adapter` is the entry point. Beside it: the size of a Job, its pod template, its pod set info, the status copied back
from a worker (`status`), and the workload slices of an elastic Job (`slices`).
"""
