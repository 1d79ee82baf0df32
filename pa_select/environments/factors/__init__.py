"""Images whose factors are controlled one by one: which levels there are, and how drawn."""
