package zkprom

import (
	"errors"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
	"github.com/zkgrant/zkgrant/events"
)

// endOf names the end of a hold without a loss. If the Grant was not taken, the end is
// withdrawn.
func endOf(err error, taken bool) string {
	switch {
	case err == nil:
		return words.Released
	case errors.Is(err, coordinator.ErrClosed):
		return words.Closed
	case taken:
		return words.Failed
	default:
		return words.Withdrawn
	}
}

// reasons returns the reasons of a loss.
func reasons() []string {
	var all []string
	for r := events.ReasonSessionExpired; r <= events.ReasonRevoked; r++ {
		all = append(all, words.Reason(r))
	}
	return all
}

// sessionEvents returns the names of the session's events.
func sessionEvents() []string {
	return []string{words.Connected, words.Suspended, words.Resumed, words.Expired, words.LeaseOut}
}
