package histories

import (
	"context"
	"path"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// upgrade has an upgradable reader become the writer, if the readers beside it leave in time, and give the two back in either order.
func (a *attempt) upgrade() {
	w := a.worker
	w.round++
	writer := w.history.begin(w.number, w.round, a.tenure.op.Path)
	ctx := a.lock.Context(context.Background())
	writer.lock = w.coordinator.ReadWrite(writer.op.Path, w.marks...).Write().Acquire(ctx, w.options()...)
	giveUp := time.After(w.upTo(w.patience))
	var over <-chan time.Time
	for {
		select {
		case grant := <-writer.lock.Granted():
			if name, _ := events.ParseName(path.Base(grant.Node)); name.Kind == events.KindUpgrade {
				writer.op.From = a.tenure.op.Round // else there was nothing to upgrade any more
			}
			writer.granted(grant)
			giveUp, over = nil, time.After(w.upTo(w.pace))
			if writer.valid() {
				w.use(writer)
			}
			if w.random.IntN(2) == 0 {
				a.tenure.release()
			}
		case <-over:
			if writer.valid() {
				w.use(writer)
			}
			writer.release()
		case <-giveUp:
			writer.release()
		case lost := <-a.lock.Lost():
			a.tenure.lost(lost)
		case lost := <-writer.lock.Lost():
			writer.lost(lost)
		case <-writer.lock.Done():
			writer.done()
			return
		}
	}
}
