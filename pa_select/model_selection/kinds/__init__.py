"""The kinds of data that a search takes beside X and y."""
