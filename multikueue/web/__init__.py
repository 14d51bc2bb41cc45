"""What the process serves: health, and the admission webhook with its certificates.

`admission` and `certificates` are pure (bytes in, bytes out; the time is an argument), `server` owns the sockets.
What the webhook does to a job is decided in `jobs`; whether the certificate and the webhook's registration are in
place on the cluster is `controllers.webhooks`' concern. `manager` starts it first and stops it last.
"""
