"""The content users' HTTP interface."""
