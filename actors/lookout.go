package actors

import (
	"sync"
	"time"

	"github.com/zkgrant/zkgrant/recipes"
)

// Lookout is a lock that reports the contenders it keeps out: it calls tell, and
// Contended returns true. [recipes.Contention] makes the decisions. No caller takes its
// Grant, and it keeps its node until Release, even after a loss.
type Lookout struct {
	*Lock

	port Port
	tell Beside

	mu   sync.Mutex
	book recipes.Contention
}

// NewLookout returns an idle lock; [Lock.Start] starts it. tell is called with each input
// of the lock, after the Lookout has processed it, with no mutex held.
func NewLookout(cfg Config, rule recipes.Rule, port Port, tell Beside) *Lookout {
	l := &Lookout{port: port, tell: tell}
	q := &queuer{port: port, machine: recipes.NewMachine(rule), beside: l.hear}
	q.init(cfg, q)
	l.Lock = &q.Lock
	return l
}

// Port returns the port of the node.
func (l *Lookout) Port() Port { return l.port }

// hear processes an input of the lock, and the effects that the machine returned for it.
func (l *Lookout) hear(epoch recipes.Epoch, in recipes.Input, effects []recipes.Effect) {
	l.mu.Lock()
	l.book.Hear(in)
	for _, e := range effects {
		switch e := e.(type) {
		case recipes.Grant:
			l.Lock.mu.Lock()
			l.retract() // the Grant is taken; otherwise a loss would delete the node
			l.Lock.mu.Unlock()
			l.book.Grant(epoch, e.Node)
		case recipes.Lose, recipes.Finish:
			l.book = recipes.Contention{}
		}
	}
	l.mu.Unlock()
	l.tell(epoch, in, effects) // it may use what the input has proven
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next(false)
}

// Watch watches the directory until another contender is found.
func (l *Lookout) Watch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Watched = true
	l.next(false)
}

// Find notes that the caller has found another contender.
func (l *Lookout) Find() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book.Found = true
}

// Contended reports whether another contender has arrived, or may have. Once true, found
// stays true until the lock is lost or released. blind means that a server has refused a
// listing or a claim.
func (l *Lookout) Contended() (found, blind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.book.Found, l.book.Blind
}

// Known reports whether the lock is held and the Lookout knows every contender that
// arrived more than two probe intervals ago, or before a round trip that took longer. If
// so, the caller may use the lock. If not, the Lookout finds out, and passes the answer
// to tell. Such a round trip counts only during that call.
func (l *Lookout) Known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next(true)
}

// Rest notes that the lock is idle until Known next reports true. Until then the session
// need not renew its lease for it. A rest begins only while there is a connection and no
// claim is unanswered. Rest returns whether the lock rests.
func (l *Lookout) Rest() (rests bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.book.Rest() {
		l.do(recipes.Rest{})
	}
	return l.book.Rests()
}

// Release deletes the node.
func (l *Lookout) Release() {
	l.mu.Lock()
	l.book = recipes.Contention{}
	l.mu.Unlock()
	l.Withdraw(recipes.WhyReleased)
}

// do posts a request for the node to the loop.
func (l *Lookout) do(request recipes.Effect) {
	l.cfg.Loop.Post(func() { l.port.Do(request) })
}

// next makes the next request, if one is due. It is called with mu held.
func (l *Lookout) next(waits bool) (known bool) {
	paced := l.book.Paced
	known, request := l.book.Next(waits, l.port.Proven)
	if request != nil {
		l.do(request)
	}
	if l.book.Paced && !paced {
		time.AfterFunc(l.port.Interval(), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.book.Paced = false
			l.next(false)
		})
	}
	return known
}
