package session

import (
	"cmp"
	"errors"
	"time"

	"go.uber.org/zap"
)

// This file writes to the log that no server answers.

const (
	// firstNotice is after how long without a connection it is logged. A server that
	// restarts is back by then, or another one is found.
	firstNotice = 3 * time.Second
	// laterNotice is after how long it is logged once more.
	laterNotice = time.Minute
)

// errTrying represents the cause while the first attempt continues.
var errTrying = errors.New("the first attempt goes on")

// noteAway starts the timer when there is no connection, and stops it when there is one.
func (s *Session) noteAway(away bool) {
	switch {
	case away && s.away == nil:
		s.awaySince = time.Now()
		s.away = time.AfterFunc(firstNotice, func() { s.loop.Post(s.noticeOutage) })
	case !away && s.away != nil:
		s.away.Stop()
		s.away = nil
	}
}

// noticeOutage logs that there has been no connection for long. Its timer may be that of
// an earlier time without one.
func (s *Session) noticeOutage() {
	since := time.Since(s.awaySince)
	if s.away == nil || since < firstNotice {
		return
	}
	s.mu.Lock()
	refused := s.view.refuse
	s.mu.Unlock()
	s.cfg.Logger.Warn("no server can be used", zap.Stringer("servers", s.servers), zap.Duration("for", since),
		zap.Error(cmp.Or(refused, s.lastError(), errTrying)))
	s.away.Reset(laterNotice)
}
