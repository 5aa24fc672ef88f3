"""What the command line tools share: examples in their help, how they show what goes on."""
