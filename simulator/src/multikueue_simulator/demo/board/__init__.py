"""The history of a play: counts, times and sentences, from the changes of objects alone. Pure."""
