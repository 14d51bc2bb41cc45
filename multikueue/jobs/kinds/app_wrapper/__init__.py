"""The pods of AppWrappers.

They come from the declared components (`pod_sets`), or are inferred from the wrapped objects (`inference`). No API server
has defaulted the templates inside an AppWrapper yet: `template_defaults` does.
"""
