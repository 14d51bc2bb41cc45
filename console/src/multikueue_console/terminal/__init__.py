"""What a terminal shows: tables and stories as text, and the application that moves between them."""
