"""The API server: all verbs from the request to the storage, with admission webhooks and custom kinds.

`api` takes each request, `server` has the state that all `verbs` share, `requests` says what is asked and composes the
answer, `admission` calls webhooks, `served` follows the definitions of custom kinds. `patching` applies patches and keeps
the owners of fields, `printers` writes tables and the documents about the kinds.
"""
