//go:build !linux

package histories

import "time"

// machineTime is the time of day in nanoseconds: the same for all processes of the machine. A history in which somebody
// sets the clock is spoilt.
func machineTime() int64 { return time.Now().UnixNano() }
