"""The events module."""
