"""The command line: agreement of scores that are saved in files."""
