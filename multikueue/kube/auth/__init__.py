"""Who we are for a cluster: kubeconfigs and their security rules, tokens and certificates, and their renewal."""
