"""What parking and resuming take, beside the driver's own calls; what sessions on one GPU cost each other."""
