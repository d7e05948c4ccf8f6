//go:build !race

package mutants

const underRace = false
