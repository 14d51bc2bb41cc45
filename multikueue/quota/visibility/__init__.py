"""What the quota engine answers to those who only ask: the read-only `view`, and `explain`, why a workload is pending."""
