"""HTTP: sessions, one request and its answer, and which failed request is retried."""
