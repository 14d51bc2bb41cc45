"""From a request to what it means, and from objects to an answer."""
