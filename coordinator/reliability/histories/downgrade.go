package histories

import (
	"context"
	"path"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// goOnReading has a writer become a reader, and give the write lock back when it is, or when that cannot be.
func (a *attempt) goOnReading() {
	w := a.worker
	w.round++
	reader := w.history.begin(w.number, w.round, a.tenure.op.Path)
	reader.op.Shares, reader.op.From = true, a.tenure.op.Round
	// Its wait does not end with the write lock.
	writer := context.WithoutCancel(a.lock.Context(context.Background()))
	reader.lock = w.coordinator.ReadWrite(reader.op.Path, w.marks...).Read().Acquire(writer)
	giveUp := time.After(w.patience)
	var over <-chan time.Time
	for {
		select {
		case grant := <-reader.lock.Granted():
			if sameNumber(grant.Node, a.node) {
				reader.op.Writer = a.tenure.op.Token
			}
			reader.granted(grant)
			a.tenure.release()
			giveUp, over = nil, time.After(w.upTo(w.pace))
			if reader.valid() {
				w.use(reader)
			}
		case <-over:
			if reader.valid() {
				w.use(reader)
			}
			reader.release()
		case <-giveUp: // the writer had nothing to give any more
			a.tenure.release()
			reader.release()
		case lost := <-a.lock.Lost():
			a.tenure.lost(lost)
		case lost := <-reader.lock.Lost():
			reader.lost(lost)
		case <-reader.lock.Done():
			reader.done()
			a.tenure.release()
			return
		}
	}
}

// sameNumber tells whether two nodes of one directory bear the same number.
func sameNumber(a, b string) bool {
	x, ok := events.ParseName(path.Base(a))
	y, too := events.ParseName(path.Base(b))
	return ok && too && x.Seq == y.Seq
}
