package session

import (
	"slices"
	"sync"

	"github.com/zkgrant/zkgrant/recipes"
)

// watches is what one client watches, by path, and for whom. It is safe for
// concurrent use: requests note their interest from their own goroutines, before
// the call that arms the watch, because the event can overtake the reply:
// 1. the request registers the seat; 2. the server answers, and the node goes;
// 3. reply and event arrive in one segment; 4. the client runs the callback with
// the event before the goroutine that made the call gets to run; 5. the event
// finds the seat.
//
// The client has one channel per call that armed a watch and cannot drop any, so
// a path that is armed is not armed again, and is remembered until it fires even
// if nobody is interested any more.
type watches struct {
	mu     sync.Mutex
	paths  map[string]watched
	armed  int
	wishes map[string]asking // by path, of those that somebody wants the lock back of; nil while there was none
}

// asking is that somebody wants the lock of a path back.
type asking struct {
	czxid int64          // of the node that was read
	by    recipes.Moment // the soonest that was read; 0: at no time
	known bool           // the reading that armed the watch has found it
}

// watched is one path.
type watched struct {
	armed bool    // at the server, or about to be
	seats []*Seat // each once; few, mostly one
}

// add does nothing for a seat that is there.
func (p *watched) add(seat *Seat) {
	if !slices.Contains(p.seats, seat) {
		p.seats = append(p.seats, seat)
	}
}

// remove does nothing for a seat that is not there.
func (p *watched) remove(seat *Seat) {
	if i := slices.Index(p.seats, seat); i >= 0 {
		p.seats = slices.Delete(p.seats, i, i+1)
	}
}

func newWatches() *watches { return &watches{paths: map[string]watched{}} }

// note registers the seat's interest in the path and reports whether the caller
// has to arm the watch.
func (w *watches) note(path string, seat *Seat) (arm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.paths[path]
	if seat != nil {
		p.add(seat)
	}
	arm = !p.armed
	if arm {
		p.armed = true
		w.armed++
	}
	w.paths[path] = p
	return arm
}

// want registers the seat's interest in a path that somebody is about to have watched, or
// has. It reports whether nobody was interested before: then nobody has it watched yet.
func (w *watches) want(path string, seat *Seat) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.paths[path]
	first = len(p.seats) == 0
	p.add(seat)
	w.paths[path] = p
	return first
}

// wanted tells whether the seat is interested in the path.
func (w *watches) wanted(path string, seat *Seat) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.paths[path].seats, seat)
}

// wish notes that somebody wants the lock back, as the reading says that has armed the watch, and by when. If it has fired
// since, another reading will tell. It returns by when it is to be back by this or an earlier reading, whichever is the sooner.
func (w *watches) wish(path string, by recipes.Moment) recipes.Moment {
	w.mu.Lock()
	defer w.mu.Unlock()
	if before := w.wishes[path].by; before != 0 && (by == 0 || before < by) {
		by = before
	}
	if p, ok := w.paths[path]; ok {
		if w.wishes == nil {
			w.wishes = map[string]asking{}
		}
		w.wishes[path] = asking{by: by, known: p.armed}
	}
	return by
}

// unwish notes that nobody does.
func (w *watches) unwish(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.wishes, path)
}

// wished tells whether a wish is known to stand in any of the nodes, and by when the lock is to be back by that. While the watch is
// armed the data are what they were, and nobody reads them.
func (w *watches) wished(paths ...string) (by recipes.Moment, wished bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, path := range paths {
		a := w.wishes[path]
		if !a.known {
			continue
		}
		wished = true
		if a.by != 0 && (by == 0 || a.by < by) {
			by = a.by
		}
	}
	return by, wished
}

// interested returns who is interested in the path.
func (w *watches) interested(path string) []*Seat {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.paths[path].seats)
}

// failed says that the watch on the path was not armed after all. The seat, if it
// is not nil, will be told and not be interested any more; the result is whether
// others are, who take the watch for armed.
func (w *watches) failed(path string, seat *Seat) (others bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.paths[path]
	p.remove(seat)
	w.disarm(path, p)
	return len(p.seats) > 0
}

// changed says that the watch has fired and the node still exists. It reports
// whether somebody wants the watch armed again.
func (w *watches) changed(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.paths[path]
	w.disarm(path, p)
	return len(p.seats) > 0
}

// gone forgets the path, whose node does not exist, and returns who has to hear
// of it.
func (w *watches) gone(path string) []*Seat {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.paths[path]
	w.disarm(path, watched{armed: p.armed})
	return p.seats
}

// lost says that no watch is armed any more. It returns the paths that somebody wants armed again.
func (w *watches) lost() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var wanted []string
	for path, p := range w.paths {
		w.disarm(path, p)
		if len(p.seats) > 0 {
			wanted = append(wanted, path)
		}
	}
	return wanted
}

// forget drops the seat's interest in the path.
func (w *watches) forget(path string, seat *Seat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.paths[path]; ok {
		p.remove(seat)
		w.keep(path, p)
	}
}

// disarm is called with mu held.
func (w *watches) disarm(path string, p watched) {
	if p.armed {
		p.armed = false
		w.armed--
	}
	if a, ok := w.wishes[path]; ok {
		a.known = false
		w.wishes[path] = a
	}
	w.keep(path, p)
}

// keep is called with mu held.
func (w *watches) keep(path string, p watched) {
	if !p.armed && len(p.seats) == 0 {
		delete(w.paths, path)
		delete(w.wishes, path)
		return
	}
	w.paths[path] = p
}

// any tells whether the client has watches to send again after a reconnect.
func (w *watches) any() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.armed > 0
}
