package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/examples/internal/program"
)

// leaderLock is what the leader has, and whose node bears its address.
const leaderLock = "/zkgrant/leaderhttp/leader"

// service is one instance.
type service struct {
	address string // of this instance, for others
	lock    *coordinator.Lock
	think   time.Duration // what an order takes
	say     func(string, ...any)
	leading atomic.Pointer[term] // nil: somebody else, or nobody, leads

	mu     sync.Mutex
	orders int
}

// term is a time of leading.
type term struct {
	lock  *coordinator.Acquisition
	grant events.Grant
}

// run takes part until ctx ends: it waits for the lock, leads, and waits again when
// it has lost it. When run returns, somebody else may lead.
func (s *service) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := s.lead(ctx)
		var lost *coordinator.LostError
		if errors.As(err, &lost) {
			s.say("does not lead any more: %v", lost.Reason)
		} else if err = program.UnlessEnded(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

// lead leads once, until the lock is lost or ctx ends.
func (s *service) lead(ctx context.Context) error {
	lock := s.lock.Acquire(ctx, coordinator.WithData([]byte(s.address)))
	defer func() { // returns when the node is gone
		lock.Release()
		<-lock.Done()
	}()
	grant, err := lock.Wait(ctx)
	if err != nil {
		return err
	}
	s.leading.Store(&term{lock, grant})
	defer s.leading.Store(nil) // before the Release above
	s.say("leads, token %#x", grant.Token)
	select {
	case <-lock.Done():
		return lock.Err()
	case <-ctx.Done():
		return nil
	}
}

// handler serves the endpoints.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("POST /orders", s.leaderOnly(s.order))
	return mux
}

// leaderOnly lets a request through while this instance leads, with a context that
// ends when it does not any more, and says who does otherwise.
func (s *service) leaderOnly(next func(http.ResponseWriter, *http.Request, *term)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Valid, because the process may have been halted since it became the leader.
		if t := s.leading.Load(); t != nil && t.lock.Valid() {
			next(w, r.WithContext(t.lock.Context(r.Context())), t)
			return
		}
		s.refuse(w, r)
	})
}

// refuse answers with 503 and the leader's address. The request's context may have
// ended, as it does with a loss.
func (s *service) refuse(w http.ResponseWriter, r *http.Request) {
	// Without a connection the question would wait for one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Second)
	defer cancel()
	leader, err := s.leader(ctx)
	if err != nil {
		http.Error(w, "the leader is not known: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Leader", leader)
	http.Error(w, "ask the leader: "+leader, http.StatusServiceUnavailable)
}

// order is an endpoint that only the leader may serve. It takes some time.
func (s *service) order(w http.ResponseWriter, r *http.Request, t *term) {
	select {
	case <-time.After(s.think): // thinking about it
	case <-r.Context().Done(): // the customer has gone, or we do not lead any more
	}
	if err := context.Cause(r.Context()); err != nil || !t.lock.Valid() {
		s.refuse(w, r)
		return
	}
	s.mu.Lock()
	s.orders++
	n := s.orders
	s.mu.Unlock()
	// Whoever stores the order elsewhere sends the token along; see ../fencedwriter.
	fmt.Fprintf(w, "%s has taken order %d under token %#x\n", s.address, n, t.grant.Token)
}

// leader returns the address that the leader has stored in its node.
func (s *service) leader(ctx context.Context) (string, error) {
	queue, err := s.lock.Queue(ctx)
	if err != nil {
		return "", err
	}
	for _, contender := range queue {
		// Its own word would be that of a past leader, which is about to be removed.
		if contender.Holding && string(contender.Data) != s.address {
			return string(contender.Data), nil
		}
	}
	return "", errors.New("an election is under way")
}
