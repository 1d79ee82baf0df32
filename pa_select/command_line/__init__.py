"""The command line: agreement of scores saved in files."""
