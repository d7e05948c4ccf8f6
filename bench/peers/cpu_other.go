//go:build !linux

package peers

import (
	"errors"
	"fmt"
	"time"
)

// processorTime is known on Linux only.
func processorTime(int) (time.Duration, error) {
	return 0, fmt.Errorf("peers: processor time of another process: %w", errors.ErrUnsupported)
}
