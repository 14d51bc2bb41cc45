"""The pods of AppWrappers, from the components they declare (`pod_sets`) or inferred from the wrapped objects
(`inference`).

No API server has defaulted the templates inside an AppWrapper yet: `template_defaults` does.
"""
