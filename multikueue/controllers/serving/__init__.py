"""The endpoints that the API server of the manager cluster calls: the admission webhook and the visibility API.

`webhooks` and `visibility` keep the registration and the certificate (`certificate`) of each in place, by the names in
`names`, `remote_reads` reads for people what is on workers, `default_queues` knows the namespaces with a default queue,
which the webhook's registration names. The servers themselves are in `multikueue.web`.
"""
