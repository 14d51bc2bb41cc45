"""An experiment: what does choosing a cluster gain, and what do copies cost others? Strategies as they ship, on virtual time.

`traces` draws jobs after published traces, `play` runs them on clusters under one strategy, `contestants` are the strategies,
`columns` the results, and `compared` plays all of them on the same jobs.
"""
