"""The first tier: bubblewrap, with namespaces and mounts."""
