"""The language server: one process for each editor, which tells the daemon what the editor shows and asks for it."""
