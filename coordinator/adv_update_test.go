package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestUpdatesBesideEachOther: two goroutines count under one lock, or under one that was entered again, and a reply or a write
// is lost. An Update that reports success has counted.
func TestUpdatesBesideEachOther(t *testing.T) {
	for name, action := range map[string]zktest.Action{"reply": zktest.CutAfter(), "write": zktest.CutBefore()} {
		for _, again := range []bool{false, true} {
			coordtest.Case(t, name+strconv.FormatBool(again), func(t *testing.T, srv *zktest.Server) {
				eventstest.Must(t, srv.Create(ledgerPath, []byte("10")))
				c := coordtest.Connect(t, srv)
				lock := c.Mutex(lockPath, coordinator.Reentrant())
				a, _ := coordtest.Hold(t, lock)
				b := a
				if again {
					b = lock.Acquire(a.Context(t.Context()))
					coordtest.Soon(t, b)
				}
				n := 0
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if slices.ContainsFunc(r.Parts, func(p zktest.Part) bool { return p.Path == ledgerPath }) {
						if n++; n == 1 {
							return action
						}
					}
					return zktest.Pass()
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var wg sync.WaitGroup
				var errs [2]error
				var calls [2]int
				gate := make(chan struct{})
				for i, by := range []*coordinator.Acquisition{a, b} {
					wg.Go(func() {
						f := addTo(&calls[i])
						errs[i] = by.Update(ctx, ledgerPath, func(old []byte, exists bool) ([]byte, error) {
							if calls[i] == 0 {
								if i == 0 {
									<-gate
								} else {
									close(gate)
								}
							}
							return f(old, exists)
						})
					})
				}
				wg.Wait()
				least, most := 10, 10
				for _, err := range errs {
					switch {
					case err == nil:
						least++
						most++
					case errors.Is(err, coordinator.ErrOutcomeUnknown):
						most++
					}
				}
				got, _ := strconv.Atoi(written(srv))
				expect(t, got >= least && got <= most, "Updates = %v after %v calls, and %d is written; want %d to %d", errs, calls, got, least, most)
				t.Log(errs, calls, got)
			})
		}
	}
}

// TestUpdateOfARemovedNodeByReaders: a reader's create has lost its reply, and another reader has deleted the node. The create is not repeated.
func TestUpdateOfARemovedNodeByReaders(t *testing.T) {
	coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
		c := coordtest.Connect(t, srv)
		a, _ := coordtest.Hold(t, c.ReadWrite(lockPath).Read())
		n, gone := 0, false
		srv.Intercept(func(r zktest.Request) zktest.Action {
			if slices.ContainsFunc(r.Parts, func(p zktest.Part) bool { return p.Path == ledgerPath }) {
				if n++; n == 1 {
					return zktest.CutAfter()
				}
			}
			if n == 1 && !gone && r.Op == zktest.OpConnect {
				gone = srv.Delete(ledgerPath) == nil
			}
			return zktest.Pass()
		})
		calls := 0
		err := a.Update(t.Context(), ledgerPath, addTo(&calls))
		expect(t, gone && n == 1 && written(srv) == "" && errors.Is(err, coordinator.ErrOutcomeUnknown),
			"Update = %v after %d tries and %d calls, deleted: %v, and %q is written; want ErrOutcomeUnknown after one", err, n, calls, gone, written(srv))
	})
}
