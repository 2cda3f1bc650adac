"""What executes runs. ``runs._base.Executor`` is the contract."""
