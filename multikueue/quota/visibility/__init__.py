"""The read-only side of the quota engine: `view`, and `explain`, the reasons why a workload is pending."""
