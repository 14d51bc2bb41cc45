"""The verbs of the API: reads, watches, writes, patches, deletion, and subresources."""
