//go:build !linux

package ensemble

import "time"

// sleepExactly sleeps as precisely as the runtime's timers allow.
func sleepExactly(d time.Duration) { time.Sleep(d) }
