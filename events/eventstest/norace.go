//go:build !race

package eventstest

// Raced is whether the race detector watches.
const Raced = false
