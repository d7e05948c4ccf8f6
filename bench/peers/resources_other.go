//go:build !linux

package peers

import (
	"errors"
	"fmt"
	"time"
)

// errElsewhere is returned by every function in this file.
var errElsewhere = fmt.Errorf("peers: what processes use is read on Linux only: %w", errors.ErrUnsupported)

// ProcessorTime is only available on Linux.
func ProcessorTime(int) (time.Duration, error) { return 0, errElsewhere }

// Memory is only available on Linux.
func Memory(int) (int64, error) { return 0, errElsewhere }

// FreeMemory is only available on Linux.
func FreeMemory() (int64, error) { return 0, errElsewhere }

// Descriptors is only available on Linux.
func Descriptors() (uint64, error) { return 0, errElsewhere }
