"""What a BOT-M, and a robot, tell of themselves."""
