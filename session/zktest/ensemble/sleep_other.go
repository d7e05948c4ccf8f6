//go:build !linux

package ensemble

import "time"

// sleepExactly sleeps as exactly as the runtime's timers do.
func sleepExactly(d time.Duration) { time.Sleep(d) }
