"""Recording what agents say, and replaying it.

``record.py``  writes the items of each run into a file, as they come.
``redact.py``  pure: a line of such a file, without secrets.
``replay.py``  pure: such a file through translator and grammar again, to the entries of a log.
"""

FORMAT = 1
"""Of the files that are written, and the only one that is read."""
