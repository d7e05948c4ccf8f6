//go:build !linux

package peers

import (
	"errors"
	"fmt"
	"time"
)

// errElsewhere is the error of each function in this file.
var errElsewhere = fmt.Errorf("peers: what processes use is read on Linux only: %w", errors.ErrUnsupported)

// ProcessorTime is known on Linux only.
func ProcessorTime(int) (time.Duration, error) { return 0, errElsewhere }

// Memory is known on Linux only.
func Memory(int) (int64, error) { return 0, errElsewhere }

// FreeMemory is known on Linux only.
func FreeMemory() (int64, error) { return 0, errElsewhere }

// Descriptors is known on Linux only.
func Descriptors() (uint64, error) { return 0, errElsewhere }
