"""What `make demo` runs: a scripted model and two A2A agents (a process each), and the terminal that shows them."""

WARM_UP = "Warm up:"
"""A question that begins so is answered by the demo's model and agents at once, without their pace."""
