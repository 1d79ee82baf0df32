"""Images whose factors are set one by one: their levels, and how they are drawn."""
