package promtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// ErrNotFound is what [Find] returns, wrapped, on a machine without Prometheus.
var ErrNotFound = errors.New("promtest: no Prometheus to run; run bench/deps, or set PROMETHEUS_HOME to the folder of prometheus and promtool")

// Installation is a Prometheus that can be run.
type Installation struct{ Prometheus, Promtool string }

// Find returns the programs: those in PROMETHEUS_HOME, which must then hold them; or those on PATH; or those in .deps of the
// project that the working directory belongs to. The error is [ErrNotFound] if there are none.
func Find() (Installation, error) {
	if home := os.Getenv("PROMETHEUS_HOME"); home != "" {
		return in(home)
	}
	prometheus, err := exec.LookPath("prometheus")
	if err == nil {
		promtool, missing := exec.LookPath("promtool")
		if missing == nil {
			return Installation{prometheus, promtool}, nil
		}
	}
	deps, err := ensemble.Deps()
	if err != nil {
		return Installation{}, err
	}
	return in(filepath.Join(deps, "prometheus"))
}

func in(folder string) (Installation, error) {
	found := Installation{filepath.Join(folder, "prometheus"), filepath.Join(folder, "promtool")}
	for _, program := range []string{found.Prometheus, found.Promtool} {
		if _, err := exec.LookPath(program); err != nil {
			return Installation{}, fmt.Errorf("%w: %w", ErrNotFound, err)
		}
	}
	return found, nil
}

// TB is the part of testing.TB that [Installed] uses. It is declared here so that programs which link this package do not link package
// testing.
type TB interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Installed is [Find] for a test, which is skipped without Prometheus, or fails if the environment has ZKGRANT_REAL=1.
func Installed(tb TB) Installation {
	tb.Helper()
	found, err := Find()
	if err != nil {
		if os.Getenv("ZKGRANT_REAL") == "1" {
			tb.Fatal(err)
		}
		tb.Skip(err)
	}
	return found
}
