// Command repair changes two nodes that belong together, and must not be seen half changed. For two nodes in ZooKeeper one transaction
// would do. It would not if they were too many, or if one of them were elsewhere.
//
// A writer that dies between the two changes leaves them half done, and its lock goes with its session. With coordinator.DetectCrash
// the next Grant names the holder that did not release, and the next writer repairs what is half done before anything else. Two rules
// protect readers: while a reader holds the read lock, no writer holds. If its Grant tells of a crash, or the node `ready` is missing,
// the reader leaves the two nodes alone.
//
//	go run ./examples/repair                     on a server inside the program
//	go run ./examples/repair -zk host:2181,...   on a real one, chroot and all
//
// stage.go has what is not to be copied: every third change of each writer dies half-way, by a panic or by losing its connection for
// good. The program ends with an error if a reader has seen one node of the old and one of the new version.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

// The paths. While the lock is held, its record stands beside it.
const (
	root     = "/zkgrant/repair"
	pairLock = root + "/lock"
	left     = root + "/left"
	right    = root + "/right"
	ready    = root + "/ready" // exists unless the two are being changed
)

func main() {
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// writer changes the two nodes.
type writer struct {
	name    string
	pair    *pair
	tally   *tally
	say     func(string, ...any)
	halfway func() // between the two changes; it may panic
}

// change makes one change under the write lock. First it repairs what a crashed writer has left.
func (w *writer) change(ctx context.Context, lock *coordinator.ReadWrite) error {
	return lock.Write().Do(ctx, func(ctx context.Context, grant events.Grant) error {
		lock, _ := coordinator.FromContext(ctx)
		held := lock.Context(context.WithoutCancel(ctx)) // what is begun is finished, also on Ctrl-C
		if grant.Abandoned != nil {
			if err := w.repair(held, lock, grant.Abandoned); err != nil {
				return err
			}
		}
		return w.write(held, lock, fmt.Sprintf("version %#x", grant.Token))
	}, coordinator.WithData([]byte(w.name)))
}

// write changes one node after the other. While `ready` is gone, they may be of two versions.
func (w *writer) write(held context.Context, lock *coordinator.Acquisition, version string) error {
	if err := must(held, lock, remove(ready), zk.ErrNoNode); err != nil {
		return err
	}
	if err := must(held, lock, set(left, version), nil); err != nil {
		return err
	}
	w.halfway()
	if err := must(held, lock, set(right, version), nil); err != nil {
		return err
	}
	if err := must(held, lock, create(ready), zk.ErrNodeExists); err != nil {
		return err
	}
	w.tally.add(&w.tally.written)
	return nil
}

// repair makes whole what a crashed holder has left, which may be changed by half, not at all, or whole. If this writer crashes as well,
// the next one repairs.
func (w *writer) repair(held context.Context, lock *coordinator.Acquisition, left *events.Abandoned) error {
	found, err := w.pair.read()
	for err != nil { // a return would release, and no later Grant would tell of the crash
		select {
		case <-time.After(100 * time.Millisecond):
		case <-held.Done():
			return context.Cause(held)
		}
		found, err = w.pair.read()
	}
	if !found.whole() {
		if err := must(held, lock, set(right, found.left), nil); err != nil {
			return err
		}
		w.tally.add(&w.tally.repaired)
	}
	if err := must(held, lock, create(ready), zk.ErrNodeExists); err != nil {
		return err
	}
	w.say("%s  has looked after what %s left behind (since %s): whole %v", w.name, left.Data, left.Since.Format(time.TimeOnly), found.whole())
	return nil
}

// must makes one step of a change, and repeats it until it is done: from a half-done change there is no way back, and a return would
// release. The loss of the lock ends the attempts; to the next holder that is a crash. A step that the servers refuse, such as for a
// quota, ends them, too, and is no crash: if `ready` was removed by then, it stays away, and no reader uses the nodes until the next
// change has made them whole. If a step was made but its answer was lost, the next attempt is refused with the error made. Each step is
// made only while the lock is held (see Acquisition.Txn).
func must(held context.Context, lock *coordinator.Acquisition, step any, made error) error {
	for {
		_, err := lock.Txn(held, step)
		var lost *coordinator.LostError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &lost):
			return err
		case made != nil && errors.Is(err, made):
			return nil
		case !errors.Is(err, coordinator.ErrOutcomeUnknown):
			return err
		case held.Err() != nil:
			return context.Cause(held)
		}
	}
}

// reader uses the two nodes together.
type reader struct {
	pair  *pair
	tally *tally
}

// look is one look under the read lock. After a crash a reader leaves the nodes alone until they are repaired; that it reads them all the
// same is for the show.
func (r *reader) look(ctx context.Context, lock *coordinator.ReadWrite) error {
	return lock.Read().Do(ctx, func(ctx context.Context, grant events.Grant) error {
		lock, _ := coordinator.FromContext(ctx)
		found, err := r.pair.read()
		switch {
		case err != nil || !lock.Valid(): // nothing was read, or a writer may have written meanwhile
			return nil //nolint:nilerr // the next look is soon
		case grant.Abandoned != nil || !found.ready:
			r.tally.add(&r.tally.waited)
			if grant.Abandoned == nil || found.ready && !found.whole() {
				return &brokenError{found}
			}
			return nil
		case !found.whole():
			return &brokenError{found}
		}
		r.tally.add(&r.tally.read)
		return nil
	})
}

func set(node, text string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: node, Data: []byte(text), Version: -1}
}

func create(node string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: node, Acl: zk.WorldACL(zk.PermAll)}
}

func remove(node string) *zk.DeleteRequest { return &zk.DeleteRequest{Path: node, Version: -1} }
