"""JSON trees and the pod templates in them: paths, comparison, merge patches, strategic merge.

It knows Kubernetes' JSON and no kind of jobs.
"""
