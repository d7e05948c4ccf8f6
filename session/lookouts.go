package session

import (
	"slices"
	"sync"
)

// lookouts is what the first in a semaphore's queue has watched: the children of the
// leases' directory, which a resize touches as well; and what is watched for
// goroutines that read a node again and again ([watcher]). It is safe for concurrent use. Of a change only those are told who look out when it comes, and
// each once; who wants to hear more looks again.
//
// As with [watches], the client cannot drop a watch and keeps a channel for each call that
// armed one, so a path that is armed is not armed again. Here more depends on when it
// was: a reading beside an armed watch misses nothing, and one beside a watch that is about to be
// armed may:
//
//  1. A is about to arm; 2. B finds that taken care of, and only reads; 3. the leases change;
//  4. A's request is executed, reads the new leases, and has the watch armed; 5. nobody
//     tells B.
//
// So a path is armed when the answer says so, and whoever asks before that arms as well. An
// answer that comes behind the event of its own watch would be believed in vain, so it
// says nothing if the path has fired since it was asked.
//
// After a reconnect the watches are not trusted, and armed again by whoever looks: the client asks for them
// with a zxid, and of a change of children that came before that the server says nothing.
type lookouts struct {
	mu    sync.Mutex
	paths map[string]lookout
}

// lookout is one path.
type lookout struct {
	armed     bool
	pending   int // answers that are awaited
	fires     int // while some are
	onlookers []onlooker
}

// onlooker is whoever looks out on a path.
type onlooker interface {
	// lookAgain says that something has happened there, or may have; gone, that the path's node was deleted. The session's
	// drain calls it.
	lookAgain(c *client, gone bool)
}

func newLookouts() *lookouts { return &lookouts{paths: map[string]lookout{}} }

// ask registers the onlooker, unless it is nil, and reports whether the caller has to arm the
// watch. If so, it says with answered how that went, and hands the number over.
func (l *lookouts) ask(path string, who onlooker) (arm bool, fires int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.paths[path]
	if who != nil && !slices.Contains(p.onlookers, who) {
		p.onlookers = append(p.onlookers, who)
	}
	if arm = !p.armed; arm {
		p.pending++
	}
	l.keep(path, p)
	return arm, p.fires
}

// answered says whether the watch is armed that ask wanted to be.
func (l *lookouts) answered(path string, fires int, armed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.paths[path]
	p.pending--
	p.armed = p.armed || armed && p.fires == fires
	l.keep(path, p)
}

// fired returns whom to tell, and is not interested in them any more.
func (l *lookouts) fired(path string) []onlooker {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.paths[path]
	if !ok {
		return nil
	}
	told := p.onlookers
	p.armed, p.onlookers = false, nil
	p.fires++
	l.keep(path, p)
	return told
}

// distrust has every path armed again that somebody asks for.
func (l *lookouts) distrust() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for path, p := range l.paths {
		p.armed = false
		p.fires++
		l.keep(path, p)
	}
}

// forget drops the onlooker's interest in the path.
func (l *lookouts) forget(path string, who onlooker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.paths[path]; ok {
		if i := slices.Index(p.onlookers, who); i >= 0 {
			p.onlookers = slices.Delete(p.onlookers, i, i+1)
		}
		l.keep(path, p)
	}
}

// all returns every path.
func (l *lookouts) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for path := range l.paths {
		all = append(all, path)
	}
	return all
}

// any tells whether the client may have watches to send again after a reconnect.
func (l *lookouts) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.paths) > 0
}

// keep is called with mu held.
func (l *lookouts) keep(path string, p lookout) {
	if !p.armed && p.pending == 0 && len(p.onlookers) == 0 {
		delete(l.paths, path)
		return
	}
	l.paths[path] = p
}
