package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// Locks that detect crashes: the reports to each holder are compared with what is known
// of earlier holders.

// detectsOf reports whether a seed's locks detect crashes, independently of recipeOf,
// again and formOf.
func detectsOf(seed uint64) bool {
	return recipeOf(seed).basic() && seed/128%3 == 1
}

// errPanic is the panic of a function under a lock.
var errPanic = errors.New("schedules: panic")

// recovered is Do. It returns the function's panic, whose value is an error, as its
// error.
func recovered(ctx context.Context, h handle, f func(context.Context, events.Grant) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = r.(error)
		}
	}()
	return h.Do(ctx, f)
}

// fate is how one granted acquisition ended.
type fate struct {
	token    int64
	node     string
	side     side
	told     *events.Abandoned
	crashed  bool // its holder certainly took the Grant and did not release
	released bool // its holder released, and so did every holder beside it, as far as this one knows
	gone     bool // the node went while its session lived, and no other client deleted it
}

// fateOf records how an acquisition ended.
func (w *world) fateOf(path string, s side, grant events.Grant, how string, err error) {
	if !w.detects || grant.Token == 0 {
		return
	}
	gone := !w.srv.Exists(grant.Node) && slices.Contains(w.srv.Sessions(), grant.Session)
	w.mu.Lock()
	defer w.mu.Unlock()
	gone = gone && !w.meddled.has(nameOf(grant.Node))
	f := fate{token: grant.Token, node: grant.Node, side: s, told: grant.Abandoned, gone: gone}
	switch how {
	case "released", "function returned":
		f.released = err == nil
	case "lost", "panicked":
		f.crashed = true
	case "":
		f.released = err == nil // taken on the stream
	default:
		f.crashed = errors.Is(err, coordinator.ErrClosed)
	}
	w.fates[path] = append(w.fates[path], f)
	if grant.Abandoned != nil {
		w.counts["told of a crash"]++
	}
	if f.crashed {
		w.counts["crashed"]++
	}
}

// isOver records how the acquisition ended.
func (r *record) isOver(err error) {
	w, grant := r.life.client.world, r.a.Grant()
	how := ""
	if r.tenure != nil {
		how = r.tenure.how
	} else if !r.released || err != nil {
		return // there was no holder
	}
	w.fateOf(r.path, r.script.side, grant, how, err)
}

// judgeFates compares the reports to each holder with what is known. Many fates are
// unknown: a release without a connection may be executed, or come too late.
func (w *world) judgeFates() {
	for _, path := range w.paths {
		w.mu.Lock()
		all := slices.Clone(w.fates[path])
		w.mu.Unlock()
		slices.SortStableFunc(all, func(a, b fate) int { return cmp.Compare(a.token, b.token) })
		for _, f := range all {
			if f.told == nil {
				w.judgeSilence(path, all, f)
			} else {
				w.judgeTold(path, all, f)
			}
		}
		w.judgeRecord(path, all)
	}
}

// judgeRecord fails if there is a record of a holder that has released, or of a holder
// before one that has released.
func (w *world) judgeRecord(path string, all []fate) {
	data, stands := w.srv.Data(path + session.RecordSuffix)
	if !stands {
		return
	}
	var token int64
	_, rest, _ := strings.Cut(string(data), "\ntoken ")
	if _, err := fmt.Sscanf(rest, "0x%x\n", &token); err != nil {
		w.failf("%s: the record is %q", path, data)
	}
	for _, f := range all {
		w.expect(f.side != alone || f.token < token || !clean(all, f.token),
			"%s: the holder of %s has released, and there is a record: %q", path, f.node, data)
	}
}

// judgeSilence fails if a holder was told of no crash, although the latest holder before
// it certainly crashed. A holder between the two that did not certainly crash may have
// released. So may the writer whose place a reader has taken, by the time the reader
// looks.
func (w *world) judgeSilence(path string, all []fate, f fate) {
	var latest int64
	for _, g := range all {
		if f.side != alone && g.side == alone && g.token == f.token && !g.crashed {
			return
		}
		if g.side == alone && g.token < f.token {
			latest = max(latest, g.token)
		}
	}
	if crashedAt(all, latest) {
		w.failf("%s: the holder of %s was told of no crash, and the holder before it, with token %x, has crashed",
			path, f.node, latest)
	}
}

// judgeTold fails if a holder was told of a holder that has released, of a node that was
// not that holder's, or of another crash than the first since the last release.
func (w *world) judgeTold(lock string, all []fate, f fate) {
	told, before := *f.told, int64(0)
	for _, g := range all {
		switch {
		case g.side != alone:
		case g.token == told.Token && path.Base(g.node) != path.Base(told.Node):
			w.failf("%s: the holder of %s was told of %+v, which had the node %s", lock, f.node, told, g.node)
		case g.token >= told.Token && g.token < f.token && clean(all, g.token):
			w.failf("%s: the holder of %s was told of %+v, and %x has released since",
				lock, f.node, told, g.token)
		case g.token < told.Token:
			before = max(before, g.token)
		}
	}
	w.expect(!crashedAt(all, before),
		"%s: the holder of %s was told of %+v, and %x crashed before", lock, f.node, told, before)
}

// crashedAt reports whether a holder with this token certainly crashed.
func crashedAt(all []fate, token int64) bool {
	return slices.ContainsFunc(all, func(f fate) bool {
		return f.token == token && f.side == alone && f.crashed
	})
}

// clean reports whether every holder with this token certainly released.
func clean(all []fate, token int64) bool {
	gone := false
	for _, f := range all {
		if f.token != token || f.side != alone {
			continue
		}
		if !f.released {
			return false
		}
		gone = gone || f.gone
	}
	return gone
}
