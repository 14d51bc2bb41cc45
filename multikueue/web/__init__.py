"""What the process serves: health, metrics, the admission webhook, and the visibility API, with their certificates.

`admission`, `certificates`, `serving`, `visibility` and `front_proxy` are pure (bytes or paths in, bytes or documents out;
the time is an argument; what OpenSSL takes is tried in memory), `server` owns the sockets, and `door` says who may keep them
waiting. What the webhook does to a job is decided in `jobs`, who waits is the quota engine's word; whether certificates and
registrations are in place on the cluster is the concern of `controllers.serving`. `manager` starts it first and stops it
last.
"""
