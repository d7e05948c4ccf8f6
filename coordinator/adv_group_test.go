package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/coordinator/internal/coordtest"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

var groupKinds = []func(c *coordinator.Coordinator, p string) coordinator.Handle{
	func(c *coordinator.Coordinator, p string) coordinator.Handle { return c.Mutex("/g/m" + p) },
	func(c *coordinator.Coordinator, p string) coordinator.Handle {
		return c.Mutex("/g/c"+p, coordinator.Cached(coordinator.Revocable()))
	},
	func(c *coordinator.Coordinator, p string) coordinator.Handle {
		return c.Mutex("/g/r"+p, coordinator.Reentrant())
	},
	func(c *coordinator.Coordinator, p string) coordinator.Handle {
		return c.Mutex("/g/rc"+p, coordinator.Reentrant(), coordinator.Cached(), coordinator.Revocable())
	},
	func(c *coordinator.Coordinator, p string) coordinator.Handle { return c.Semaphore("/g/s"+p, 2) },
	func(c *coordinator.Coordinator, p string) coordinator.Handle {
		return c.Multi(c.Mutex("/g/ma"+p), c.Mutex("/g/mb"+p))
	},
	func(c *coordinator.Coordinator, p string) coordinator.Handle { return c.Election("/g/e" + p) },
	func(c *coordinator.Coordinator, p string) coordinator.Handle { return c.Unfair("/g/u" + p) },
	func(c *coordinator.Coordinator, p string) coordinator.Handle { return c.ReadWrite("/g/w" + p).Write() },
	func(c *coordinator.Coordinator, p string) coordinator.Handle { return c.ReadWrite("/g/w" + p).Read() },
	func(c *coordinator.Coordinator, p string) coordinator.Handle {
		return c.Mutex("/g/d"+p, coordinator.LockDelay(time.Second))
	},
}

var advStory = regexp.MustCompile(`^[QRC]*(G[RC]*L?E|E)$`)

func letter(ev events.Event) string { return fmt.Sprintf("%T", ev)[len("events."):][:1] }

// storyBook keeps the stories of a hook or stream.
type storyBook struct {
	mu  sync.Mutex
	all map[uint64]string
}

func (b *storyBook) OnEvent(ev events.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[uint64]string{}
	}
	b.all[ev.AcquisitionID()] += letter(ev)
}

func TestAdvGroup(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("ADV"))
	base := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		base, _ = strconv.ParseUint(s, 10, 64)
		rounds = 1
	}
	counts := map[string]int{}
	for i := range max(rounds, 50) {
		seed := base + uint64(i)
		var broken []string
		coordtest.Bubble(t, func(t *testing.T, srv *zktest.Server) { broken = advGroup(t, srv, rand.New(rand.NewPCG(seed, 1)), counts) })
		if len(broken) > 0 {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(broken, "\n"))
		}
	}
	t.Log(counts)
}

func advGroup(t *testing.T, srv *zktest.Server, rnd *rand.Rand, counts map[string]int) (broken []string) {
	breaks := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	hook, stream := &storyBook{}, &storyBook{}
	cs := []*coordinator.Coordinator{coordtest.Connect(t, srv, coordinator.WithHooks(hook)), coordtest.Connect(t, srv, coordinator.WithHooks(hook))}
	outside := coordtest.Connect(t, srv)
	var streams sync.WaitGroup
	for _, c := range cs {
		ch := c.Events(t.Context())
		streams.Go(func() {
			for ev := range ch {
				stream.OnEvent(ev)
			}
		})
	}
	g := coordinator.NewGroup()
	g.Acquire(t.Context(), cs[1].Mutex("/g/stays"+fmt.Sprint(cs[1].SessionID()))) // else the group is closed with the other one
	type one struct {
		a        *coordinator.Acquisition
		released bool // before the Grant was read
		cancel   context.CancelCauseFunc
		ended    bool
		cancelled bool
	}
	gone := errors.New("gone")
	all, said := map[uint64]*one{}, map[uint64]string{}
	var list []*one
	forced := false
	ask := func() {
		ctx, cancel := context.WithCancelCause(t.Context())
		if len(list) > 0 && rnd.IntN(3) == 0 { // re-enter
			a := list[rnd.IntN(len(list))].a
			ctx, cancel = context.WithCancelCause(a.Context(t.Context()))
		}
		var opts []coordinator.AcquireOption
		switch rnd.IntN(6) {
		case 0:
			opts = append(opts, coordinator.Try())
		case 1:
			opts = append(opts, coordinator.MaxWait(time.Duration(rnd.IntN(5000))*time.Millisecond))
		}
		h := groupKinds[rnd.IntN(len(groupKinds))](cs[rnd.IntN(2)], fmt.Sprint(rnd.IntN(2)))
		o := &one{cancel: cancel}
		o.a = g.Acquire(ctx, h, opts...)
		if rnd.IntN(3) == 0 {
			o.a.Contended()
		}
		list = append(list, o)
		all[o.a.ID()] = o
	}
	read := func(ev events.Event) {
		id := ev.AcquisitionID()
		if id == 0 {
			return
		}
		said[id] += letter(ev)
		o := all[id]
		if o == nil {
			return
		}
		switch ev := ev.(type) {
		case events.Grant:
			if o.released {
				breaks("a Grant came after the Release: %v", ev)
			}
			if !forced && !o.cancelled && !o.a.Valid() {
				breaks("not valid: %v, %v", ev, o.a.Err())
			}
			switch rnd.IntN(8) {
			case 0:
				o.a.Release()
			case 1:
				o.cancel(gone)
				o.cancelled = true
			}
		case events.Ended:
			o.ended = true
			if o.a.Valid() {
				breaks("valid after Ended")
			}
			synctest.Wait()
			if !coordtest.IsClosed(o.a.Done()) || o.a.Err() != ev.Err { //nolint
				breaks("not done, or %v != %v", o.a.Err(), ev.Err)
			}
		}
	}
	var out []*coordinator.Acquisition
	for range rnd.IntN(60) + 5 {
		if rnd.IntN(2) == 0 {
			synctest.Wait()
		}
		switch n := rnd.IntN(20); n {
		case 0, 1, 2, 3, 4, 5:
			ask()
		case 6, 7, 8, 9:
			for range rnd.IntN(8) {
				synctest.Wait()
				select {
				case ev, open := <-g.Events():
					if open {
						read(ev)
					}
				default:
				}
			}
		case 10, 11:
			if len(list) > 0 {
				o := list[rnd.IntN(len(list))]
				o.a.Release()
				o.released = true
			}
		case 12, 13:
			if len(list) > 0 {
				o := list[rnd.IntN(len(list))]
				o.cancel(gone)
				o.cancelled = true
			}
		case 14:
			forced = true
			_ = srv.Expire(cs[rnd.IntN(2)].SessionID())
		case 15:
			srv.Cut(cs[rnd.IntN(2)].SessionID())
		case 16:
			forced = true
			if len(list) > 0 {
				if node := list[rnd.IntN(len(list))].a.Grant().Node; node != "" {
					_ = srv.Delete(node)
				}
			}
		case 17:
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		case 18:
			out = append(out, groupKinds[rnd.IntN(len(groupKinds))](outside, fmt.Sprint(rnd.IntN(2))).Acquire(t.Context()))
		case 19:
			switch rnd.IntN(6) {
			case 0:
				forced = true
				eventstest.Check(t, cs[0].Close())
			case 1:
				if len(out) > 0 {
					out[0].Release()
					out = out[1:]
				}
			case 2:
				forced = true
				id := cs[1].SessionID()
				srv.Mute(id, true)
				time.Sleep(20 * time.Second)
				srv.Mute(id, false)
			}
		}
	}
	stops := rnd.IntN(3) == 0
	late := map[uint64]bool{}
	go func() { // races
		for range 3 {
			a := g.Acquire(t.Context(), groupKinds[0](cs[1], "late"))
			hook.mu.Lock()
			late[a.ID()] = true
			hook.mu.Unlock()
		}
	}()
	g.Close()
	for ev := range g.Events() {
		hook.mu.Lock()
		isLate := late[ev.AcquisitionID()] || all[ev.AcquisitionID()] == nil
		hook.mu.Unlock()
		if !isLate {
			read(ev)
		}
		if stops {
			break
		}
	}
	for _, o := range list {
		<-o.a.Done()
		o.cancel(nil)
	}
	for _, a := range out {
		a.Release()
		<-a.Done()
	}
	time.Sleep(200 * time.Millisecond)
	if stops {
		for range g.Events() {
			breaks("still open")
		}
	}
	for _, c := range cs {
		eventstest.Check(t, c.Close())
	}
	streams.Wait()
	for id, o := range all {
		story := said[id]
		if story == "" && errors.Is(o.a.Err(), coordinator.ErrClosed) {
			continue // the group was closed before, with its coordinators
		}
		if !stops && !advStory.MatchString(story) || strings.Count(story, "E") > 1 {
			breaks("the group said %q of %d", story, id)
		}
		for who, b := range map[string]*storyBook{"hook": hook, "stream": stream} {
			if who == "stream" && errors.Is(o.a.Err(), coordinator.ErrClosed) && b.all[id] == "" {
				continue // it was closed before
			}
			if !advStory.MatchString(b.all[id]) {
				breaks("the %s said %q of %d (group %q)", who, b.all[id], id, story)
			}
			if strings.Contains(story, "L") && !strings.Contains(b.all[id], "L") || !stops && strings.Contains(b.all[id], "L") && !strings.Contains(story, "L") {
				breaks("the %s said %q of %d (group %q)", who, b.all[id], id, story)
			}
		}
		granted, err := strings.Contains(story, "G"), o.a.Err()
		switch {
		case granted && (errors.Is(err, gone) || errors.Is(err, coordinator.ErrNotAcquired) || errors.Is(err, coordinator.ErrTimeout)):
			breaks("a Grant was read, and Err is %v", err)
		case !stops && !granted && err == nil:
			breaks("no Grant was read, and Err is nil: %q, %d", story, id)
		}
		counts[strings.NewReplacer("Q", "", "R", "", "C", "").Replace(story)]++
		isQuiet(t, o.a)
	}
	eventstest.Check(t, outside.Close())
	if left := contenders(srv); len(left) > 0 {
		breaks("%v are left", left)
	}
	return broken
}
