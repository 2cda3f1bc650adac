"""What `make demo` runs: a scripted model and two A2A agents (a process each), and the terminal that shows them."""
