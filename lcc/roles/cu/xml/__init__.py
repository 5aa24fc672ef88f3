"""The content users' XML interface."""
