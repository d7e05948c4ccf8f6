package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zkgrant/zkgrant/recipes"
)

// waiter is a request that does nothing.
type waiter struct {
	slot

	number int
	urgent urgency
}

func (*waiter) meantFor() recipes.Epoch            { return 0 }
func (*waiter) do(*client) (func(*Session), error) { return nil, nil }
func (*waiter) refuse()                            {}
func (*waiter) admit(*Session)                     {}

func (w *waiter) urgency() urgency { return w.urgent }

func (w *waiter) String() string { return fmt.Sprintf("%d/%d", w.urgent, w.number) }

// waiting is a pending beside the plainest thing that does the same.
type waiting struct {
	pending

	want     [urgencies][]request
	underWay []request
	made     int
}

// step does one of the things that a session does, by the two bytes, and returns what is wrong then.
func (w *waiting) step(what, which byte) (wrong string) {
	switch of := urgency(which % byte(urgencies)); what % 5 {
	case 0, 1:
		w.made++
		r := &waiter{number: w.made, urgent: of}
		w.add(r)
		w.want[of] = append(w.want[of], r)
	case 2: // the next one is made
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
	case 3: // one is not wanted any more
		if queue := w.want[of]; len(queue) > 0 {
			i := int(which) % len(queue)
			r := queue[i]
			if !w.remove(r) || w.remove(r) {
				return fmt.Sprintf("%v is not removed once", r)
			}
			w.want[of] = slices.Delete(slices.Clone(queue), i, i+1)
		}
	case 4: // one is answered, and perhaps made again
		if len(w.underWay) > 0 {
			i := int(which) % len(w.underWay)
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

// wrong compares the two.
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

// TestPendingLosesNothing: requests are added, removed, made and answered, in any order. None is lost or there twice, and those of one
// urgency keep their order.
func TestPendingLosesNothing(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var w waiting
		for i := range 500 {
			if wrong := w.step(byte(random.Uint32()), byte(random.Uint32())); wrong != "" {
				t.Fatalf("seed %d, step %d: %s", seed, i, wrong)
			}
		}
	}
}

// Every sequence of four steps over a few requests, of an urgency for each kind of bound.
func TestPendingInEveryOrder(t *testing.T) {
	kinds := [...]urgency{proving, handing, observing, joining, cleaning}
	const steps = 5 * len(kinds)
	for n := range steps * steps * steps * steps {
		var w waiting
		w.step(0, 0)
		for i, rest := 0, n; i < 4; i, rest = i+1, rest/steps {
			if wrong := w.step(byte(rest%5), byte(kinds[rest/5%len(kinds)])); wrong != "" {
				t.Fatalf("sequence %d, step %d: %s", n, i, wrong)
			}
		}
	}
}

func FuzzPending(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 2, 0, 3, 1, 4, 200, 2, 0})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var w waiting
		for i := 0; i+1 < len(steps); i += 2 {
			if wrong := w.step(steps[i], steps[i+1]); wrong != "" {
				t.Fatalf("step %d: %s", i/2, wrong)
			}
		}
	})
}

// TestUrgentRequestsGoFirst: requests are made by their urgency, and with the same urgency by their age.
func TestUrgentRequestsGoFirst(t *testing.T) {
	var q pending
	for i, u := range []urgency{observing, joining, handing, joining, proving, handing, observing, proving} {
		q.add(&waiter{number: i, urgent: u})
	}
	var got []string
	for r := q.next(); r != nil; r = q.next() {
		q.remove(r)
		got = append(got, fmt.Sprint(r))
	}
	if want := []string{"0/4", "0/7", "2/2", "2/5", "3/0", "3/6", "5/1", "5/3"}; !slices.Equal(got, want) {
		t.Errorf("made in the order %v, want %v", got, want)
	}
}

// TestRemovalsOfDirectoriesGoLast, and few at a time.
func TestRemovalsOfDirectoriesGoLast(t *testing.T) {
	var q pending
	for range 2 * mostCleaning {
		q.add(&waiter{urgent: cleaning})
	}
	for u := range cleaning {
		q.add(&waiter{urgent: u})
	}
	for u := range cleaning {
		r := q.next()
		if got := r.(*waiter).urgent; got != u {
			t.Errorf("urgency %d goes before urgency %d", got, u)
		}
		q.remove(r)
	}
	begun := 0
	for r := q.next(); r != nil; r = q.next() {
		q.remove(r)
		q.count(r, 1)
		begun++
	}
	if begun != mostCleaning {
		t.Errorf("%d removals are under way, want %d", begun, mostCleaning)
	}
}

// TestNeitherHalfStarvesTheOther: however many requests of one half wait, and are made anew after each answer, the other half is made.
func TestNeitherHalfStarvesTheOther(t *testing.T) {
	for crowd, lone := range map[urgency]urgency{proving: joining, handing: joining, joining: handing, observing: proving, looking: joining} {
		var q pending
		for range 10 * mostUrgent {
			q.add(&waiter{urgent: crowd})
		}
		underWay := 0
		for r := q.next(); r != nil; r = q.next() {
			q.remove(r)
			q.count(r, 1)
			underWay++
		}
		if underWay > mostUrgent {
			t.Fatalf("%d of urgency %d are under way, want at most %d", underWay, crowd, mostUrgent)
		}
		one := &waiter{urgent: lone}
		q.add(one)
		if got := q.next(); got != request(one) {
			t.Errorf("after a crowd of urgency %d the next one is %v, want the one of urgency %d", crowd, got, lone)
		}
	}
}
