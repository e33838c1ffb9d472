"""The stack file: its model, its rules and its only reader."""
