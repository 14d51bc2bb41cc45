"""The process: files that it watches, its memory, and the lag of its event loop."""
