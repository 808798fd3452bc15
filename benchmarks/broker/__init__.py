"""What ten thousand leases cost the broker: its decisions alone, and the service with its holders."""
