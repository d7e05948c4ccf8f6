package schedules

import (
	"os"
	"strconv"
	"testing"
)

// The environment of the tests here.
const (
	seedVariable   = "ZKGRANT_SEED"      // play this schedule only, and print it
	numberVariable = "ZKGRANT_SCHEDULES" // how many schedules to play
	recipeVariable = "ZKGRANT_RECIPE"    // play only this kind of lock, by its name
	soakVariable   = "ZKGRANT_SOAK"      // 1: play fresh schedules until stopped
)

func replayed() bool { return os.Getenv(seedVariable) != "" }

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// onlyRecipe returns the kind of lock of every schedule; empty for any.
func onlyRecipe() recipe { return recipe(os.Getenv(recipeVariable)) }
