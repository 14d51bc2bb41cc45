"""The endpoints of the process: health, metrics, admission webhook and visibility API, with their certificates.

`admission`, `certificates`, `serving`, `visibility`, `relatives` and `front_proxy` are pure (bytes or paths in, bytes
or documents out; the time is an argument; certificates are tried with OpenSSL in memory), `server` owns the sockets,
and `door` limits how long a connection keeps them waiting. `jobs` decides what the webhook does to a job, and the
quota engine has the pending workloads; `controllers.serving` keeps certificates and registrations in place on the
cluster. `manager` starts this room first and stops it last.
"""
