"""What a round of culling costs over ten thousand servers: the idle culler, the same with our hook, our own rounds."""
