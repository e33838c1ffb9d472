"""The native Pulumi provider for what no other provider has: Flex-start queued resources."""
