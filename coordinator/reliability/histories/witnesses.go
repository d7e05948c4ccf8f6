package histories

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
)

// witnesses are all workers of a history.
type witnesses struct {
	chronicle *chronicle
	desks     []*desk
	all       []*witness
	renewals  sync.WaitGroup
}

// open adds a coordinator. The workers that are hired next use it.
func (c *witnesses) open(t *testing.T, connect func() (*coordinator.Coordinator, error)) {
	t.Helper()
	d := &desk{connect: connect}
	if d.renew(t); d.now == nil {
		t.FailNow()
	}
	c.desks = append(c.desks, d)
}

// hire adds a worker.
func (c *witnesses) hire(random *rand.Rand, pace, patience time.Duration) {
	c.all = append(c.all, &witness{
		number: len(c.all), desk: c.desks[len(c.desks)-1], chronicle: c.chronicle, paths: crashPaths(), pace: pace, patience: patience,
		random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64())),
	})
}

// start sets all workers to work. The channel is closed when they have finished.
func (c *witnesses) start(more func(done int) bool) (finished <-chan struct{}) {
	return start(c.all, func(w *witness) { w.run(more) })
}

// renew closes a coordinator while its workers go on.
func (c *witnesses) renew(t *testing.T, d *desk) {
	t.Helper()
	c.chronicle.note("%#x is closed", d.current().SessionID())
	c.renewals.Go(func() { d.renew(t) })
}

// finish asks each lock a last time about crashes, when every fault is over, and closes.
func (c *witnesses) finish(t *testing.T) {
	t.Helper()
	c.renewals.Wait()
	w := c.all[0]
	for _, path := range crashPaths() {
		w.round++
		e, lock := w.begin(path, false)
		a := lock.Acquire(context.Background(), coordinator.WithData([]byte(e.who)))
		grant, err := a.Wait(context.Background())
		if err != nil {
			t.Errorf("%s: the last one: %v", path, err)
			continue
		}
		e.granted(grant)
		e.ends()
		a.Release()
		<-a.Done()
		if e.over(a.Err()); e.err != nil {
			t.Errorf("%s: the last one: %v", path, e.err)
		}
	}
	for _, d := range c.desks {
		d.close(t)
	}
}
