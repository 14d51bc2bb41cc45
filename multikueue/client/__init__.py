"""PUBLIC: jobs from Python: submit one to a queue, wait for it, ask where it is and why, read its logs, cancel it.

`MultiKueue` is for scripts and notebooks, `AsyncMultiKueue` for programs on asyncio. Both do what the commands do, with the
same rights: those of your kubeconfig on the manager cluster. No rights on workers are needed where the manager serves the
visibility API::

    from multikueue.client import MultiKueue, container_job

    with MultiKueue(namespace="team-a") as clusters:
        job = clusters.submit(container_job("trainer:1", "python", "train.py", cpu="4"), queue="batch")
        print(job.status)            # Waits for quota in ClusterQueue batch, number 3 there. ...
        code = job.wait()            # the exit code, as of a process
        print(job.where, job.logs())

Errors are those of `multikueue.errors`, all of them a `MultiKueueError`. docs/client.md has more.
"""

from multikueue.answers.answer import JobAnswer
from multikueue.client.asynchronous import AsyncJob, AsyncMultiKueue, container_job
from multikueue.client.blocking import MultiKueue, SubmittedJob

__all__ = ["AsyncJob", "AsyncMultiKueue", "JobAnswer", "MultiKueue", "SubmittedJob", "container_job"]
