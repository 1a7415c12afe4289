"""Where events go: one file a destination, found by name and loaded by `jobtape.events.handlers` when first used."""
