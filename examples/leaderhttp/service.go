package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/zkgrant/zkgrant/coordinator"
)

// service is one instance.
type service struct {
	address  string // where the others reach this instance
	election *coordinator.Election
	order    func(ctx context.Context) error         // processes an order; ctx ends with the term
	term     atomic.Pointer[coordinator.Acquisition] // the current term; nil unless this instance leads
	leader   atomic.Pointer[coordinator.Leader]      // the last observed leader
	orders   atomic.Int64
}

// run campaigns, leads, and keeps track of the leader until ctx ends. It campaigns again
// after a loss.
func (s *service) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var observing sync.WaitGroup
	observing.Go(func() {
		defer s.leader.Store(nil)
		for leader := range s.election.Observe(ctx) {
			s.leader.Store(&leader)
		}
	})
	defer observing.Wait()
	defer stop()
	for term, err := range s.election.Terms(ctx, coordinator.Data([]byte(s.address))) {
		if err != nil {
			return err
		}
		s.lead(term.Context(ctx), term)
	}
	return nil
}

// lead publishes the term to the handlers until ctx, the term's context, ends.
func (s *service) lead(ctx context.Context, term *coordinator.Acquisition) {
	s.term.Store(term)
	defer s.term.Store(nil) // before another instance may lead
	log.Printf("%s leads, token %d", s.address, term.Grant().Token)
	<-ctx.Done()
	var lost *coordinator.LostError
	if errors.As(context.Cause(ctx), &lost) {
		log.Printf("%s LOST the lead: %v", s.address, lost.Reason)
	}
}

// handler returns the service's endpoints.
func (s *service) handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("POST /orders", s.leaderOnly(s.take))
	return mux
}

// leaderOnly passes requests to next while this instance leads, with a context that ends
// with the term. Otherwise it refuses them.
func (s *service) leaderOnly(next func(http.ResponseWriter, *http.Request, *coordinator.Acquisition)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Check Valid, since the process may have been paused after the grant.
		if term := s.term.Load(); term != nil && term.Valid() {
			next(w, r.WithContext(term.Context(r.Context())), term)
			return
		}
		s.refuse(w)
	})
}

// refuse answers 503, with the leader's address if it is known.
func (s *service) refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	leader := s.leader.Load()
	// If the observed leader is this instance, its term is over or not yet reported.
	if leader == nil || leader.Node == "" || string(leader.Data) == s.address {
		http.Error(w, "the leader is not known: an election is under way", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Leader", string(leader.Data))
	http.Error(w, fmt.Sprintf("ask the leader: %s", leader.Data), http.StatusServiceUnavailable)
}

// take serves POST /orders.
func (s *service) take(w http.ResponseWriter, r *http.Request, term *coordinator.Acquisition) {
	if err := s.order(r.Context()); err != nil || !term.Valid() {
		s.refuse(w)
		return
	}
	// Store the token with the order, to refuse past leaders: see ../fencedwriter.
	fmt.Fprintf(w, "%s has taken order %d under token %d\n", s.address, s.orders.Add(1), term.Grant().Token)
}
