"""Notices of workloads for a program elsewhere, as CloudEvents over HTTP."""
