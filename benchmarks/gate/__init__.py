"""What the gate costs while nothing is parked, and what its quick WebSocket gives."""
