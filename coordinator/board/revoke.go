package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

const (
	mostGrace   = time.Hour
	mostRequest = 64 << 10 // bytes
)

// revocation is the body of a request to /revoke.
type revocation struct {
	Lock  string   `json:"lock"`
	Grace *float64 `json:"grace_seconds"` // nil: missing or null, which must not mean at once
}

// revoke requests a lock from its holders, and answers when they are gone. The end of the
// HTTP request does not withdraw that: a holder still loses the lock at its own deadline.
// It only ends the wait, and the eviction of a holder that does not react.
func (b *Board) revoke(w http.ResponseWriter, r *http.Request) {
	if b.authorise == nil {
		http.Error(w, "this board is read-only", http.StatusForbidden)
		return
	}
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" { // a form of another site cannot send this type without a preflight
		http.Error(w, "want application/json", http.StatusUnsupportedMediaType)
		return
	}
	if err := b.authorise(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	asked, err := read(w, r)
	if err != nil {
		http.Error(w, "want lock and grace_seconds: "+err.Error(), http.StatusBadRequest)
		return
	}
	if asked.Grace == nil || *asked.Grace < 0 || *asked.Grace > mostGrace.Seconds() {
		http.Error(w, fmt.Sprintf("want 0 to %v seconds of grace", mostGrace.Seconds()), http.StatusBadRequest)
		return
	}
	grace := time.Duration(*asked.Grace * float64(time.Second))
	at, only, ok := b.lockOf(asked)
	if !ok {
		b.missing(w)
		return
	}
	ctx := r.Context()
	if only != nil {
		ctx = session.WithSeen(ctx, only)
	}
	ctx = session.WithAsked(ctx, func() {
		b.tell(func(s *state) {
			s.add(moment{At: time.Now().UnixMilli(), What: "asked", Path: at, Note: "the holders have " + grace.String() + " to release it"})
		})
	})
	err = b.ask(ctx, at, grace)
	if err != nil && r.Context().Err() == nil {
		b.tell(func(s *state) {
			s.add(moment{At: time.Now().UnixMilli(), What: "refused", Path: at, Note: reason(err, at)})
		})
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, coordinator.ErrClosed):
		unavailable(w)
	case errors.Is(err, coordinator.ErrNotHeld), errors.Is(err, coordinator.ErrNotRevocable), errors.Is(err, coordinator.ErrKind):
		http.Error(w, reason(err, at), http.StatusConflict)
	default:
		http.Error(w, reason(err, at), http.StatusBadGateway)
	}
}

// reason returns an error's text without the path, which the reader knows.
func reason(err error, at string) string {
	text := strings.TrimPrefix(err.Error(), "zkgrant: revoking "+at+": ")
	return strings.ReplaceAll(strings.TrimPrefix(text, "zkgrant: "), at+"/", "")
}

// read reads the whole body: only then does net/http notice that the client is gone.
func read(w http.ResponseWriter, r *http.Request) (asked revocation, _ error) {
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Now().Add(sending)) // a wrapper may lack deadlines
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostRequest))
	in.DisallowUnknownFields()
	if err := in.Decode(&asked); err != nil {
		return asked, err
	}
	switch _, err := in.Token(); {
	case err == nil:
		return asked, errors.New("there is text after the JSON object")
	case !errors.Is(err, io.EOF):
		return asked, err
	}
	_ = out.SetReadDeadline(time.Time{}) // the grace may be longer
	patient(w)
	return asked, nil
}

// lockOf returns the path of a lock that the board shows now. If a queue and a semaphore
// share the path, only these contenders are those of the lock; otherwise, only is nil.
func (b *Board) lockOf(asked revocation) (path string, only []events.Contender, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, k := range b.state.locks {
		if at.id() != asked.Lock {
			continue
		}
		if b.state.locks[place{at.path, !at.semaphore}] != nil {
			only = append([]events.Contender{}, k.info.Contenders...) // not nil
		}
		return at.path, only, true
	}
	return "", nil, false
}

// ask calls Revoke, which ends with the request or the board.
func (b *Board) ask(ctx context.Context, at string, grace time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.ctx, func() { cancel(coordinator.ErrClosed) })() //nolint:contextcheck // the board's end, beside the caller's
	return b.c.Revoke(ctx, at, grace)
}
