"""The pods of AppWrappers, from its declared components (`pod_sets`) or from what it wraps (`inference`).

No API server has filled in the templates in an AppWrapper yet: `template_defaults` does.
"""
