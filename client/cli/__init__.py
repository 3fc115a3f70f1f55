"""The command line: one file a command group, wired in app.py."""
