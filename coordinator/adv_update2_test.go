package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// TestAdvUpdate: at each request something happens. The count is what the successful calls and the other writer made it.
func TestAdvUpdate(t *testing.T) {
	outcomes := map[string]int{}
	for kind := range groupKinds {
		for round := range 40 {
			seed := rand.Uint64()
			coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) {
				rnd := rand.New(rand.NewPCG(seed, uint64(round)))
				c := coordtest.Connect(t, srv)
				a, err := groupKinds[kind](c, "x").Hold(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				path := []string{"/ledger", "/led/ger", "/led/g/er"}[rnd.IntN(3)]
				count := func() int {
					d, _ := srv.Data(path)
					n, _ := strconv.Atoi(string(d))
					return n
				}
				others, removed := 0, false
				if rnd.IntN(2) == 0 {
					_ = srv.Create(path, []byte("0"))
				}
				ctx, cancel := context.WithCancel(t.Context())
				other := func() {
					switch rnd.IntN(8) {
					case 0, 1:
						if srv.SetData(path, strconv.AppendInt(nil, int64(count()+1000), 10)) == nil {
							others += 1000
						} else if srv.Create(path, []byte("1000")) == nil {
							others += 1000
						}
					case 2:
						if rnd.IntN(3) == 0 && srv.Delete(path) == nil {
							removed = true
						}
					case 3:
						if rnd.IntN(3) == 0 {
							_ = srv.Expire(c.SessionID())
						}
					case 4:
						if rnd.IntN(5) == 0 {
							_ = srv.Delete(a.Grant().Node)
						}
					case 5:
						if rnd.IntN(4) == 0 {
							cancel()
						}
					case 6:
						if rnd.IntN(6) == 0 {
							a.Release()
						}
					}
				}
				log := ""
				srv.Intercept(func(r zktest.Request) zktest.Action {
					if r.Op == zktest.OpPing || rnd.IntN(2) == 0 {
						return zktest.Pass()
					}
					other()
					switch n := rnd.IntN(6); n {
					case 0:
						log += fmt.Sprint(r.Op, " cut before; ")
						return zktest.CutBefore()
					case 1:
						log += fmt.Sprint(r.Op, " cut after; ")
						return zktest.CutAfter()
					case 2:
						return zktest.Delay(time.Duration(rnd.IntN(3000)) * time.Millisecond)
					}
					return zktest.Pass()
				})
				sure, maybe, calls := 0, 0, 0
				for range 3 {
					calls = 0
					var seen []string
					err := a.Update(ctx, path, func(old []byte, exists bool) ([]byte, error) {
						calls++
						n, _ := strconv.Atoi(string(old))
						seen = append(seen, fmt.Sprint(n, exists))
						return strconv.AppendInt(nil, int64(n+1), 10), nil
					})
					switch {
					case err == nil:
						sure++
					case errors.Is(err, coordinator.ErrOutcomeUnknown):
						maybe++
					}
					outcomes[fmt.Sprint(err == nil, errors.Is(err, coordinator.ErrOutcomeUnknown), calls > 1)]++
				}
				srv.Intercept(nil)
				a.Release()
				if got := count(); !removed && (got < sure+others || got > sure+maybe+others) {
					t.Fatalf("kind %d, seed %d, %d: %d, want %d+%d to %d more: %s", kind, seed, round, got, sure, others, maybe, log)
				}
				cancel()
			})
			if t.Failed() {
				return
			}
		}
	}
	t.Log(outcomes)
}
