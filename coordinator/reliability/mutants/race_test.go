//go:build race

package mutants

// underRace: building with the race detector, and so building everything again, is
// for the other tests.
const underRace = true
