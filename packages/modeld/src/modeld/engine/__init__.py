"""The process boundary: a child process holds the backend and the slot, the front process supervises it."""
