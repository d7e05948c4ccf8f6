package zkprom

import (
	"errors"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
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
