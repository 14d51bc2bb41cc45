"""Fleets larger than one machine holds real control planes for: `idle_servers` stands for the workers, in a process of its
own; `rest` measures the manager over them, one process for each point; `held` what it keeps of workloads."""
