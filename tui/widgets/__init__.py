"""The widgets that screens consist of."""
