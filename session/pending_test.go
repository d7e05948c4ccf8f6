package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// waiter is a request that does nothing.
type waiter struct {
	slot

	number int
	urgent urgency
}

func (*waiter) do(*client) (func(*Session), error) { return nil, nil }
func (*waiter) admit(*Session)                     {}

func (w *waiter) urgency() urgency { return w.urgent }

func (w *waiter) String() string { return fmt.Sprintf("%d/%d", w.urgent, w.number) }

// waiting is a pending, next to the simplest model that behaves the same.
type waiting struct {
	pending

	want     [urgencies][]request
	underWay []request
	made     int
}

// step performs one step of a session, chosen by the two numbers, and returns what is
// wrong afterwards.
func (w *waiting) step(what, which int) (wrong string) {
	switch of := urgency(which % int(urgencies)); what {
	case 0, 1:
		w.made++
		r := &waiter{number: w.made, urgent: of}
		w.add(r)
		w.want[of] = append(w.want[of], r)
	case 2: // the next request is made
		r := w.next()
		if r == nil {
			break
		}
		of := r.(*waiter).urgent
		if len(w.want[of]) == 0 || w.want[of][0] != r {
			return fmt.Sprintf("%v is next, want the oldest of %v", r, w.want[of])
		}
		if !w.remove(r) {
			return fmt.Sprintf("%v is next and does not wait", r)
		}
		w.count(r, 1)
		w.want[of], w.underWay = w.want[of][1:], append(w.underWay, r)
	case 3: // a request is no longer wanted
		if queue := w.want[of]; len(queue) > 0 {
			i := which % len(queue)
			r := queue[i]
			if !w.remove(r) || w.remove(r) {
				return fmt.Sprintf("%v is not removed once", r)
			}
			w.want[of] = slices.Delete(slices.Clone(queue), i, i+1)
		}
	case 4: // a request is answered, and may be made again
		if len(w.underWay) > 0 {
			i := which % len(w.underWay)
			r := w.underWay[i]
			w.underWay = slices.Delete(w.underWay, i, i+1)
			w.count(r, -1)
			if w.remove(r) {
				return fmt.Sprintf("%v was under way, and waited", r)
			}
			if which > 127 {
				w.add(r)
				of := r.(*waiter).urgent
				w.want[of] = append(w.want[of], r)
			}
		}
	}
	return w.wrong()
}

// wrong compares the two, and returns a difference.
func (w *waiting) wrong() string {
	if got, want := slices.Collect(w.all()), slices.Concat(w.want[:]...); !slices.Equal(got, want) {
		return fmt.Sprintf("%v wait, want %v", got, want)
	}
	var count [urgencies]int
	for _, r := range w.underWay {
		count[r.(*waiter).urgent]++
	}
	if w.pending.underWay != count {
		return fmt.Sprintf("%v are under way, want %v", w.pending.underWay, count)
	}
	for u, queue := range w.want {
		if first := w.first(urgency(u)); len(queue) == 0 != (first == nil) || first != nil && first != queue[0] {
			return fmt.Sprintf("the first of %d is %v, want that of %v", u, first, queue)
		}
	}
	return ""
}

// TestPendingLosesNothing: requests are added, removed, made and answered in any order.
// None is lost or duplicated, and those of one urgency keep their order.
func TestPendingLosesNothing(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		var w waiting
		for i := range 500 {
			if wrong := w.step(random.IntN(5), random.IntN(256)); wrong != "" {
				t.Fatalf("seed %d, step %d: %s", seed, i, wrong)
			}
		}
	}
}

// beginAll starts all requests that the limits allow.
func beginAll(q *pending) (n int) {
	for r := q.next(); r != nil; r = q.next() {
		q.remove(r)
		q.count(r, 1)
		n++
	}
	return n
}

// TestRemovalsOfDirectoriesGoLast: only a few are made at a time. The most urgent
// requests go first.
func TestRemovalsOfDirectoriesGoLast(t *testing.T) {
	var q pending
	for range 2 * mostCleaning {
		q.add(&waiter{urgent: cleaning})
	}
	for u := range cleaning {
		q.add(&waiter{urgent: cleaning - 1 - u})
	}
	for u := range cleaning {
		r := q.next()
		got := r.(*waiter).urgent
		expect(t, got == u, "urgency %d goes before urgency %d", got, u)
		q.remove(r)
	}
	equal(t, beginAll(&q), mostCleaning, "removals under way")
}

// TestNeitherHalfStarvesTheOther: however many requests of one half wait, and are made
// again after each answer, the other half is made.
func TestNeitherHalfStarvesTheOther(t *testing.T) {
	for crowd, lone := range map[urgency]urgency{
		proving: joining, handing: joining, joining: handing, observing: proving, looking: joining,
	} {
		var q pending
		for range 10 * mostUrgent {
			q.add(&waiter{urgent: crowd})
		}
		underWay := beginAll(&q)
		if underWay > mostUrgent {
			t.Fatalf("%d of urgency %d are under way, want at most %d", underWay, crowd, mostUrgent)
		}
		one := &waiter{urgent: lone}
		q.add(one)
		equal(t, q.next(), request(one), "after a crowd of urgency %d the next, of urgency %d", crowd, lone)
	}
}
