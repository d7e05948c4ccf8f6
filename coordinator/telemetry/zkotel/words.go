package zkotel

import (
	"context"
	"errors"
	"slices"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

// endOf names the end of a hold without a loss. Of a Grant that nothing took, the end is withdrawn.
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

// isError tells which outcomes and ends are the status Error of a span. A Try that is refused, and a caller that gives up, are none.
func isError(word string) bool {
	return slices.Contains([]string{words.Lost, words.Timeout, words.Deadlock, words.Invalid, words.Failed}, word)
}
