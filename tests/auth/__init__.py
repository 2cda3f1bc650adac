"""Who is asking: what each credential proves, and what does not pass for one."""
