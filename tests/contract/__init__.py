"""What an API server does, as one suite for the real one and for both faces of the sandbox's."""
