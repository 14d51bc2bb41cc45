"""Guards taken out one at a time, by Cosmic Ray: `make mutate`, outside CI. Which of them do no tests miss?

`guards` names those that stand before a step that cannot be undone, `operators` how one is taken out.
"""
