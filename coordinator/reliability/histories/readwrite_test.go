package histories_test

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/zkgrant/zkgrant/events"
)

// fencedReadWrite is the model of a read/write lock and of the resource behind it. Writers show their tokens to the
// resource as the holders of a mutex do. So do readers, whom it never refuses. One who took a writer's place has that
// writer's token: one of his own would be greater than that of a writer who waits behind him and is yet to come.
//
// So a value that a reader has once read changes for him no more as long as he holds: whoever writes then would be a
// second holder, or somebody whose token is old.
type fencedReadWrite struct {
	worker  int
	round   int32                // of the writer; 0 if nobody writes
	readers [maxWorkers]int32    // the rounds in which they read; 0 if they do not
	upper   int                  // the upgradable reader
	up      int32                // and his round; 0 if there is none
	wrote   int64                // the token of the writer who was granted last
	plain   int64                // the token of the last writer who was nobody's upgrade
	read    int64                // the greatest token of a reader who was granted
	seen    int64                // the greatest token that the resource has been shown
	value   int64                // what it holds: the token of whoever wrote it
	over    [3][maxWorkers]int32 // of writers, of readers and of upgradable ones
}

// side is the place of the operation's side in over.
func (op operation) side() int {
	switch {
	case op.Upgrades:
		return 2
	case op.Shares:
		return 1
	default:
		return 0
	}
}

// holds tells whether the operation's acquisition holds.
func (m fencedReadWrite) holds(op operation) bool {
	switch {
	case op.Upgrades:
		return m.up == op.Round && m.upper == op.Worker
	case op.Shares:
		return m.readers[op.Worker] == op.Round
	default:
		return m.round == op.Round && m.worker == op.Worker
	}
}

// free is the state in which the operation's acquisition holds nothing.
func (m fencedReadWrite) free(op operation) fencedReadWrite {
	switch {
	case !m.holds(op):
	case op.Upgrades:
		m.up = 0
	case op.Shares:
		m.readers[op.Worker] = 0
	default:
		m.round = 0
	}
	m.over[op.side()][op.Worker] = op.Round
	return m
}

func (m fencedReadWrite) next(op operation) (state, bool) { return answer(m.step(op)) }

func (m fencedReadWrite) step(op operation) (fencedReadWrite, bool) {
	fresh := op.Round > m.over[op.side()][op.Worker]
	switch op.Kind {
	case kindAcquire:
		legal := fresh && m.admits(op)
		switch {
		case !op.Shares:
			m.worker, m.round, m.wrote = op.Worker, op.Round, op.Token
			if op.From == 0 {
				m.plain = op.Token
			}
		case op.Upgrades:
			m.read = max(m.read, op.Token)
			m.upper, m.up = op.Worker, op.Round
		default:
			m.read = max(m.read, op.Token)
			m.readers[op.Worker] = op.Round
		}
		return m, legal
	case kindHold:
		return m, m.holds(op)
	case kindWrite:
		if !op.Accepted {
			return m, op.Token < m.seen
		}
		legal := op.Token >= m.seen
		m.seen, m.value = op.Token, op.Token
		return m, legal
	case kindRead:
		m.seen = max(m.seen, op.Token)
		return m, op.Value == m.value
	case kindLose:
		return m.free(op), m.holds(op)
	case kindRelease: // or a withdrawal
		return m.free(op), fresh
	case kindGone:
		return m, !m.holds(op)
	default:
		return m, false
	}
}

// admits tells whether nobody holds with whom the operation's acquisition may not hold, and its token is in order.
func (m fencedReadWrite) admits(op operation) bool {
	alone := m.round == 0 && m.readers == [maxWorkers]int32{}
	switch {
	case op.Upgrades: // which may have waited for an upgrade that was asked for later than itself
		return m.round == 0 && m.up == 0 && op.Token > m.plain
	case !op.Shares && op.From != 0: // behind whose back nobody else can have written, as none did while he was there
		return alone && m.up == op.From && m.upper == op.Worker && op.Token >= max(m.wrote, m.read)
	case !op.Shares:
		return alone && m.up == 0 && op.Token > max(m.wrote, m.read)
	case op.Writer != 0: // who may still be there, and behind whom nobody else can have written yet
		return m.wrote == op.Writer && op.Token == op.Writer && (m.round == 0 || m.worker == op.Worker)
	case op.With > 0: // a member of a multi-lock, which takes an upgradable reader for a writer, and waits for its upgrade as well
		return m.round == 0 && m.up == 0 && op.Token > m.plain
	default:
		return m.round == 0 && op.Token > m.wrote
	}
}

func (m fencedReadWrite) String() string {
	text := fmt.Sprintf("writer granted %#x, reader %#x; seen %#x, value %#x", m.wrote, m.read, m.seen, m.value)
	if m.round != 0 {
		text += fmt.Sprintf("; written by %d/%d", m.worker, m.round)
	}
	if m.up != 0 {
		text += fmt.Sprintf("; upgradable %d/%d", m.upper, m.up)
	}
	for worker, round := range m.readers {
		if round != 0 {
			text += fmt.Sprintf("; read by %d/%d", worker, round)
		}
	}
	return text
}

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
