"""Why a job does not run, as one answer: computed from what was seen of it, for each place that shows it.

`seen` is what was seen. `answer` asks the rules in order: what can `never` be, what a person has to `fix`, what is
`passing` by itself. `past` is what happened before; `codes` has what can stand in the way, by stable names.
"""
