"""The kinds of jobs, a folder each: `adapter`, and where a kind has them `webhook`, `pod_sets` and `status`.

`batch_job`, `pods`, `stateful_set`, `deployment`, `train_job` and `app_wrapper` have code of their own; one adapter reads
all others from declarations (`declared`).
"""
