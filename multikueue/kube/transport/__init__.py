"""HTTP: sessions, one request and its answer, which failed request is retried, and how much of our time reading may take."""
