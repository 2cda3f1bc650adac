"""The log of what was shown. ``_base`` is the contract; each other module is a driver."""
