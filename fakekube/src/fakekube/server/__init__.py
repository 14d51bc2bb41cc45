"""The API server: all verbs from the request to the storage, with admission webhooks and custom kinds."""
