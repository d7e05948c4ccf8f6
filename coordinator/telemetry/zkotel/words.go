package zkotel

import (
	"context"
	"errors"
	"slices"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

// endOf names the end of a hold without a loss. If the Grant was not taken, the end is
// withdrawn.
func endOf(ctx context.Context, err error) string {
	if err == nil {
		return words.Released
	}
	if errors.As(err, new(*coordinator.LostError)) {
		return words.Withdrawn // lost before the Grant was taken
	}
	switch outcome := words.Outcome(ctx, false, err); outcome {
	case words.Closed, words.Failed:
		return outcome
	default:
		return words.Withdrawn
	}
}

// isError reports whether an outcome or an end sets the status of a span to Error. A
// refused Try does not, nor does a caller that gives up.
func isError(word string) bool {
	return slices.Contains([]string{words.Lost, words.Timeout, words.Deadlock, words.Invalid, words.Failed}, word)
}
