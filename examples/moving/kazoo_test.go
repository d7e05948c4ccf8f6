package moving_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
)

func insteadOfKazoo(ctx context.Context, c *coordinator.Coordinator, send func(context.Context) error) error {
	// zkgrant
	mail := c.Mutex("/locks/mail", coordinator.AsKazoo())
	return mail.Do(ctx, func(ctx context.Context, _ events.Grant) error {
		return send(ctx)
	}, coordinator.WithData([]byte("host-7"))) // kazoo's contenders() shows it
}

// kazoo finds what it looks for: a name with the ending of its own names, and the contender's identifier in the data.
func TestInsteadOfKazoo(t *testing.T) {
	srv := server(t)
	c, ctx := connect(t, srv), bounded(t)
	err := insteadOfKazoo(ctx, c, func(ctx context.Context) error {
		const dir = chroot + "/locks/mail"
		children := srv.Children(dir)
		if len(children) != 1 {
			t.Fatalf("in the directory are %q, want one node", children)
		}
		if name, ok := events.ParseName(children[0]); !ok || name.Kind != events.KindKazooLock {
			t.Errorf("the node is called %s, want a name of kazoo's lock", children[0])
		}
		if data, _ := srv.Data(dir + "/" + children[0]); string(data) != "host-7" {
			t.Errorf("the node says %q, want host-7", data)
		}
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
}

// Processes drop AsKazoo one after the other. Throughout, there is one holder at a time, and every process goes on. A process that
// still has the option may be refused while it sees a contender without it.
func TestDropsAsKazoo(t *testing.T) {
	const processes, sections = 3, 20
	srv := server(t)
	ctx := bounded(t)
	inside := make(chan struct{}, 1) // full while a process holds
	entered := make(chan error)      // of each section
	var dropped [processes]atomic.Bool
	enough, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range processes {
		old, next := connect(t, srv), connect(t, srv) // a process before and after its redeployment
		all.Go(func() {
			for enough.Err() == nil {
				lock, refused := old.Mutex("/locks/mail", coordinator.AsKazoo()), coordinator.ErrKind
				if dropped[i].Load() {
					lock, refused = next.Mutex("/locks/mail"), context.Canceled
				}
				err := lock.Do(enough, func(ctx context.Context, _ events.Grant) error {
					select {
					case inside <- struct{}{}:
					default:
						return errors.New("two at once")
					}
					defer func() { <-inside }()
					for range 5 { // round trips, in which another process might come in
						if _, err := lock.Queue(ctx); err != nil {
							return err
						}
					}
					select {
					case entered <- nil:
					case <-enough.Done():
					}
					return nil
				})
				if err == nil || errors.Is(err, refused) || enough.Err() != nil {
					continue
				}
				select {
				case entered <- err:
				case <-enough.Done():
				}
			}
		})
	}
	for i := range processes + 1 {
		for range sections {
			select {
			case err := <-entered:
				if err != nil {
					t.Errorf("a section ended with %v, want success", err)
				}
			case <-ctx.Done():
				t.Fatalf("no section was entered any more, with %d processes that dropped the option", i)
			}
		}
		if i < processes {
			dropped[i].Store(true)
		}
	}
	stop()
	all.Wait()
}
