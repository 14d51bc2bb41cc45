"""Output: tables, discovery, and OpenAPI documents."""
