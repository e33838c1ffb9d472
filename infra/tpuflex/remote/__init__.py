"""Components for programs in other languages: the engine's Construct, answered in the provider."""
