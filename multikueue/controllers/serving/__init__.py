"""The endpoints that the API server of the manager cluster calls: the admission webhook and the visibility API.

`webhooks` and `visibility` keep the registration and the certificate (`certificate`) of each in place, by the names in
`names`; the webhook's registration names the namespaces with a default queue. `remote_reads` reads for people what is on
workers. The servers themselves are in `multikueue.web`.
"""
