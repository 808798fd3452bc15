"""What this project costs, measured beside the extensions that people would use otherwise."""
