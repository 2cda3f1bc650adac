"""What is measured, one module a subject: ``measure(options)`` gives its figures, ``ROWS`` says how they are shown."""
