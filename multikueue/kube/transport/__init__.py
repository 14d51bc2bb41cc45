"""HTTP: sessions, one request and its answer, and how much of our time reading may take."""
