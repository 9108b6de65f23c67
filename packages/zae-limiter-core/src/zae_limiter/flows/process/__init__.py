"""What one process knows of a namespace: the settings, the config cache, each bucket's last seen state and queue."""
