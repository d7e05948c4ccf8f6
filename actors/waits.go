package actors

import (
	"context"
	"sync"

	"github.com/zkgrant/zkgrant/recipes"
)

// waits notifies locks when the contexts that bound their waits end. It registers with
// each context only once, however many locks it bounds: most programs have one context
// for all locks, and registering costs a tenth of a lock. For the same reason it stays
// registered with the last context that bounds no lock any more, until another one takes
// its place. The zero value is ready to use.
type waits struct {
	mu    sync.Mutex
	bound map[<-chan struct{}]*wait // by the context's Done
	idle  *wait                     // the one wait without locks, or nil
}

// wait is one context and the locks that it bounds. The mutex of waits guards it, and the
// fields place and wait of its locks.
type wait struct {
	ctx   context.Context
	stop  func() bool
	locks []*Lock
}

// add arranges that the lock is notified when the context ends, unless it is removed
// before.
func (w *waits) add(ctx context.Context, l *Lock) {
	if ctx.Done() == nil {
		return // it never ends
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.bound[ctx.Done()]
	if one == nil {
		one = &wait{ctx: ctx}
		if w.bound == nil {
			w.bound = map[<-chan struct{}]*wait{}
		}
		w.bound[ctx.Done()] = one
		one.stop = context.AfterFunc(ctx, func() { w.ended(one) })
	}
	if w.idle == one {
		w.idle = nil
	}
	l.wait, l.place = one, int32(len(one.locks)) //nolint:gosec // more do not fit into memory
	one.locks = append(one.locks, l)
}

// remove removes a lock. It does nothing for a lock that was notified, removed, or never
// added.
func (w *waits) remove(l *Lock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := l.wait
	if one == nil {
		return
	}
	l.wait = nil
	last := len(one.locks) - 1
	moved := one.locks[last]
	one.locks[l.place], moved.place = moved, l.place
	one.locks[last] = nil
	one.locks = one.locks[:last]
	if last == 0 {
		if w.idle != nil {
			w.dismiss()
		}
		w.idle = one
		if cap(one.locks) > mostRoom {
			one.locks = nil
		}
	}
}

// dismiss unregisters from the context that bounds no lock. It is called with mu held.
func (w *waits) dismiss() {
	w.idle.stop()
	w.forget(w.idle)
}

// close forgets the last context, which would otherwise keep the house in memory. It is
// called when all locks are over.
func (w *waits) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle != nil {
		w.dismiss()
	}
}

// ended notifies all locks that the context bounds.
func (w *waits) ended(one *wait) {
	w.mu.Lock()
	locks := one.locks
	one.locks = nil
	for _, l := range locks {
		l.wait = nil
	}
	w.forget(one)
	w.mu.Unlock()
	for _, l := range locks {
		l.drive.hand(message{bound: recipes.WhyContext, cause: context.Cause(one.ctx)})
	}
}

// forget removes a wait that has no locks any more. It is called with mu held. Another
// wait may have taken its place in the map:
//
//  1. The context ends.
//  2. The last lock is removed, and the wait dismissed.
//  3. A lock is added with the same context.
//  4. The first wait's goroutine gets to run.
func (w *waits) forget(one *wait) {
	if w.idle == one {
		w.idle = nil
	}
	if w.bound[one.ctx.Done()] == one {
		delete(w.bound, one.ctx.Done())
	}
}
