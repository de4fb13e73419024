"""HTTP's own concerns: error rendering, request id, health, limits on bodies and headers."""
