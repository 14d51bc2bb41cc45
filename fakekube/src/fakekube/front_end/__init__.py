"""The HTTPS front end of an API server: authentication, authorization and the audit log."""
