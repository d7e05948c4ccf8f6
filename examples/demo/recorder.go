package main

import (
	"encoding/json"
	"sync"
	"time"
)

// remembered is how far the picture goes back.
const remembered = 2 * time.Minute

// recorder keeps the picture, and timestamps all reports with one clock. Its methods may
// be called from any goroutine.
type recorder struct {
	begin time.Time

	mu      sync.Mutex
	picture *picture
	changed chan struct{} // closed, and replaced, at each change
}

func newRecorder(sides, names []string) *recorder {
	return &recorder{begin: time.Now(), picture: newPicture(sides, names), changed: make(chan struct{})}
}

// tell applies a contender's report, unless the contender was killed.
func (r *recorder) tell(b *body, report func(p *picture, at time.Duration)) {
	r.change(func(at time.Duration) {
		if !b.killed.Load() {
			report(r.picture, at)
		}
	})
}

func (r *recorder) mark(who, what string) {
	r.change(func(at time.Duration) { r.picture.mark(who, what, at) })
}

func (r *recorder) change(f func(at time.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Since(r.begin)
	f(at)
	r.picture.forget(at - remembered)
	close(r.changed)
	r.changed = make(chan struct{})
}

// look calls f with the picture, which f must not keep. The returned channel is closed at
// the next change.
func (r *recorder) look(f func(*picture)) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.picture.Now = time.Since(r.begin)
	f(r.picture)
	return r.changed
}

// encode returns the picture as JSON.
func (r *recorder) encode() (text []byte, changed <-chan struct{}, err error) {
	changed = r.look(func(p *picture) { text, err = json.Marshal(p) })
	return text, changed, err
}
