//go:build !linux

package histories

import "time"

// machineTime is the time of day in nanoseconds, the same for all processes of the
// machine. Setting the clock spoils a history.
func machineTime() int64 { return time.Now().UnixNano() }
