"""The maximum of the agreement over the inverse temperature, with its certificate."""
