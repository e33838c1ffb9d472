"""Container registries: the manifests of images, as docker and `doctor` ask for them."""
