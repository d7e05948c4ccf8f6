package actors

import (
	"time"

	"go.uber.org/zap"

	"github.com/zkgrant/zkgrant/events"
)

// This file writes the life of a lock to the log.

// logs reports whether the log takes entries of this level. Check it first: building an
// entry costs memory.
func (l *Lock) logs() bool { return l.cfg.Logger.Core().Enabled(l.cfg.Level) }

// log logs a published event. It is called without mu held, because a logger may be slow.
func (l *Lock) log(ev events.Event) {
	what, fields := "lock", []zap.Field{zap.String("path", l.cfg.Path), zap.Uint64("id", l.cfg.ID)}
	if l.cfg.Elects {
		what = "leadership"
	}
	switch ev := ev.(type) {
	case events.Queued:
		what, fields = what+" queued", append(fields, zap.Int("ahead", ev.Ahead))
		if ev.Delay > 0 {
			fields = append(fields, zap.Duration("delay", ev.Delay))
		}
	case events.Requeued:
		what += " queued again"
	case events.Grant:
		what, fields = what+" granted", append(fields,
			zap.Int64("token", ev.Token), zap.String("node", ev.Node), zap.Duration("waited", ev.Waited))
	case events.Revoked:
		what += " revocation requested"
		if !ev.Deadline.IsZero() {
			fields = append(fields, zap.Time("deadline", ev.Deadline))
		}
	case events.Ended:
		how := " released"
		if ev.Err != nil {
			how, fields = " given up", append(fields, zap.Error(ev.Err))
		}
		what += how
		if grant, _, _ := l.Tenure(); grant.Node == "" {
			fields = append(fields, zap.Duration("waited", time.Since(origin)-l.born))
		} else {
			fields = append(fields,
				zap.Int64("token", grant.Token), zap.Duration("waited", grant.Waited),
				zap.Duration("held", ev.Held))
		}
	default: // logLoss reports a loss, and the session its own events
	}
	l.cfg.Logger.Log(l.cfg.Level, what, fields...)
}

// logLoss warns of a loss. A sampling logger drops most of ten thousand losses at once.
func (l *Lock) logLoss(lost events.Lost) {
	what := "lock lost"
	if l.cfg.Elects {
		what = "leadership lost"
	}
	if ce := l.cfg.Logger.Check(zap.WarnLevel, what); ce != nil {
		ce.Write(zap.String("path", lost.Path), zap.Uint64("id", lost.ID),
			zap.Int64("token", lost.Token), zap.Stringer("reason", lost.Reason),
			zap.Duration("held", lost.Held))
	}
}
