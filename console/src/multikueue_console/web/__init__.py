"""The console in a browser: a server of pages and of one stream of events, and who may see what."""
