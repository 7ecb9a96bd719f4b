"""The language server: findings, fixes and explanations in any editor that speaks the protocol."""
