"""How things are shown: tables, discovery, and OpenAPI documents."""
