"""The pods of AppWrappers.

They come from the declared components, or are inferred from the wrapped objects. No API server has defaulted the templates
inside an AppWrapper yet: `pod_sets` does.
"""
