//go:build race

package eventstest

// Raced reports whether the race detector is enabled.
const Raced = true
