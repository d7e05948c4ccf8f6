//go:build !linux

package session

import "time"

// asleep returns a function that returns 0, because suspends are not known here.
func asleep() (func() time.Duration, error) {
	return func() time.Duration { return 0 }, nil
}
