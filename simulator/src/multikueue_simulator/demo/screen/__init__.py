"""What a viewer sees: a picture on a terminal, lines elsewhere, a summary, and a recording of it; and the viewer's keys."""
