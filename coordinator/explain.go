package coordinator

import (
	"errors"
	"fmt"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/recipes"
	"github.com/zkgrant/zkgrant/session"
)

// explain turns the end of an acquisition into what Err returns.
func explain(l *Lock, end actors.End) error {
	path := l.path
	switch end.Why {
	case recipes.WhyReleased, recipes.WhyPanicked:
		if end.Granted {
			return nil
		}
		return ErrNotAcquired
	case recipes.WhyBusy:
		return ErrNotAcquired
	case recipes.WhyContext:
		return end.Cause
	case recipes.WhyNoSession:
		if end.Cause != nil {
			return fmt.Errorf("%w; %w", ErrTimeout, ErrNoSession)
		}
		return fmt.Errorf("%w: %s", ErrNoSession, path)
	case recipes.WhyTimeout:
		if !l.c.session.Answers() {
			return fmt.Errorf("%w; %w", ErrTimeout, ErrNoSession)
		}
		return ErrTimeout
	case recipes.WhyClosed:
		return ErrClosed
	case recipes.WhyLost:
		return &LostError{Path: path, Reason: end.Reason}
	case recipes.WhySequenceEnd:
		return fmt.Errorf("%w: %s", ErrSequenceEnd, path)
	case recipes.WhyMixed:
		return fmt.Errorf("%w: %s has a contender that kazoo does not see", ErrKind, path)
	case recipes.WhySizeMismatch, recipes.WhyPermits:
		return l.kind.explain(l, end)
	default:
		if errors.Is(end.Cause, session.ErrGuard) {
			return fmt.Errorf("%w: %s: the write lock is no longer held, and its place is lost", ErrNotAcquired, path)
		}
		cause := end.Cause
		if at := (*session.MemberError)(nil); errors.As(cause, &at) {
			cause = &MemberError{at.Path, cause}
		}
		return fmt.Errorf("zkgrant: lock %s: %w", path, cause)
	}
}

// failed is the error of a multi-lock, of which the lock is a member.
func (l *Lock) failed(err error) error { return &MemberError{l.path, err} }
