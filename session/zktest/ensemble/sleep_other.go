//go:build !linux

package ensemble

import "time"

// sleepExactly sleeps as exactly as the runtime's timers are.
func sleepExactly(d time.Duration) { time.Sleep(d) }
