"""What stands before the API server: HTTPS, who asks, whether they may, and the audit record."""
