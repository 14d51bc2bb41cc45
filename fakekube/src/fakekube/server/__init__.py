"""The API server: every verb from the request to the storage, with admission webhooks and custom kinds."""
