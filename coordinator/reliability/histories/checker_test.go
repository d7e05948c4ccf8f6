package histories

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/zkgrant/zkgrant/coordinator/reliability"
)

// legalHistory makes up what workers would see of a lock that works: their turns one after the other. The beginning
// of an operation may reach back into the turns before.
func legalHistory(random *rand.Rand, turns int) []operation {
	var ops []operation
	var rounds [maxWorkers]int32
	now, token, seen := int64(0), int64(0), int64(0)
	add := func(op operation, k kind) {
		now += 10
		op.Kind, op.Call, op.Return = k, now-5, now+1+random.Int64N(4)
		if k == kindAcquire {
			op.Call -= random.Int64N(200) // it was asked for long ago
		}
		ops = append(ops, op)
	}
	var past []operation // with old tokens
	for range turns {
		worker := random.IntN(5)
		rounds[worker]++
		token += 1 + random.Int64N(10)
		op := operation{Path: "/made/up", Worker: worker, Round: rounds[worker], Token: token}
		add(op, kindAcquire)
		for range random.IntN(4) {
			add(op, kindHold)
			write := op
			write.Accepted, seen = true, token
			add(write, kindWrite)
		}
		if len(past) > 0 && random.IntN(4) == 0 {
			late := past[random.IntN(len(past))]
			late.Accepted = late.Token >= seen
			add(late, kindWrite)
		}
		add(op, []kind{kindLose, kindRelease}[random.IntN(2)])
		past = append(past, op)
		if random.IntN(5) == 0 { // a worker gives up waiting
			other := (worker + 1) % 5
			rounds[other]++
			add(operation{Path: op.Path, Worker: other, Round: rounds[other]}, kindRelease)
		}
	}
	return ops
}

// grants returns where the Grants are among the operations.
func grants(ops []operation) (places []int) {
	for i, op := range ops {
		if op.Kind == kindAcquire {
			places = append(places, i)
		}
	}
	return places
}

// endOf returns where the tenure ends that begins with the Grant at the given place.
func endOf(ops []operation, grant int) int {
	return grant + slices.IndexFunc(ops[grant:], func(op operation) bool {
		same := op.Worker == ops[grant].Worker && op.Round == ops[grant].Round
		return same && (op.Kind == kindLose || op.Kind == kindRelease)
	})
}

// A checker that calls everything legal would be as quiet as one that works. So it is shown histories with one flaw
// each.
func TestAFlawInAHistoryIsFound(t *testing.T) {
	// between is an operation at the moment after another one has been answered.
	between := func(op operation, at int64) operation {
		op.Call, op.Return = at, at
		return op
	}
	// older and newer are two successive Grants, and i is the index of the newer one.
	flaws := map[string]func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation{
		"two holders": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			for j := range ops {
				ops[j].Token *= 2 // so that there is room for one that is in order
			}
			second := operation{Path: newer.Path, Worker: 9, Round: 1, Token: 2*newer.Token + 1}
			first := second
			first.Kind, second.Kind = kindAcquire, kindRelease
			return append(ops, between(first, newer.Return), between(second, newer.Return+1))
		},
		"a token that does not grow": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			lower := older.Token - random.Int64N(2)
			for j, op := range ops {
				if op.Worker == newer.Worker && op.Round == newer.Round && op.Token == newer.Token {
					ops[j].Token = lower
				}
			}
			// Without its writes the tenure shows the flaw in its Grant alone.
			return slices.DeleteFunc(ops, func(op operation) bool { return op.Kind == kindWrite })
		},
		"a write accepted behind that of a newer token": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			first, late := newer, older
			first.Kind, late.Kind = kindWrite, kindWrite
			first.Accepted, late.Accepted = true, true
			return append(ops, between(first, newer.Return), between(late, newer.Return+1))
		},
		"a transaction accepted beside a newer Grant": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			older.Kind, older.Accepted = kindGuard, true
			return append(ops, between(older, newer.Return+1))
		},
		"a write refused for nothing": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			newer.Kind = kindWrite
			return append(ops, between(newer, newer.Return+1))
		},
		"a Grant behind a withdrawal": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			grant := ops[endOf(ops, grants(ops)[i-1])] // the lock is free then
			withdrawn := operation{Path: grant.Path, Kind: kindRelease, Worker: 9, Round: 1}
			late := operation{Path: grant.Path, Kind: kindAcquire, Worker: 9, Round: 1, Token: grant.Token}
			// Its own token is no other worker's, so that only the order of the two is wrong.
			for i := range ops {
				ops[i].Token *= 2
			}
			late.Token = 2*late.Token + 1
			gone := operation{Path: grant.Path, Kind: kindLose, Worker: 9, Round: 1}
			after := grant.Return
			return append(ops, between(withdrawn, after+1), between(late, after+2), between(gone, after+3))
		},
		"valid while another worker holds": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			older.Kind = kindHold
			return append(ops, between(older, newer.Return))
		},
		"a loss told behind the next Grant": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			end := endOf(ops, grants(ops)[i-1])
			ops[end].Kind, ops[end].Call, ops[end].Return = kindLose, newer.Return+1, newer.Return+1
			return ops
		},
		"two losses": func(random *rand.Rand, ops []operation, older, newer operation, i int) []operation {
			end := ops[endOf(ops, grants(ops)[i])]
			end.Kind = kindLose
			return append(ops, between(end, end.Return+1))
		},
	}
	const seeds = 50
	for name, flaw := range flaws {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				random := rand.New(rand.NewPCG(seed, 0))
				ops := legalHistory(random, 60)
				if result, _ := search(ops); result != porcupine.Ok {
					t.Fatalf("seed %d: a legal history is %s", seed, result)
				}
				places := grants(ops)
				i := 1 + random.IntN(len(places)-1)
				ops = flaw(random, ops, ops[places[i-1]], ops[places[i]], i)
				random.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
				if result, info := search(ops); result != porcupine.Illegal {
					t.Errorf("seed %d: got %s, want %s; %s", seed, result, porcupine.Illegal, draw[operation](info, os.TempDir()))
				}
			}
		})
	}
}

// Locks are independent: what is illegal on one path is legal on two.
func TestEachLockHasAHistoryOfItsOwn(t *testing.T) {
	ops := []operation{
		{Path: "/a", Kind: kindAcquire, Worker: 0, Round: 1, Token: 7, Call: 1, Return: 2},
		{Path: "/b", Kind: kindAcquire, Worker: 1, Round: 1, Token: 3, Call: 3, Return: 4},
		{Path: "/a", Kind: kindHold, Worker: 0, Round: 1, Token: 7, Call: 5, Return: 6},
	}
	if result, _ := search(ops); result != porcupine.Ok {
		t.Errorf("on two paths: %s, want %s", result, porcupine.Ok)
	}
	for i := range ops {
		ops[i].Path = "/a"
	}
	if result, _ := search(ops); result != porcupine.Illegal {
		t.Errorf("on one path: %s, want %s", result, porcupine.Illegal)
	}
}

// A long history is decided quickly, also if its flaw comes last.
func TestLongHistoriesAreDecidedAbout(t *testing.T) {
	ops := legalHistory(rand.New(rand.NewPCG(1, 2)), reliability.Trials(800, 800, 4000))
	slices.SortFunc(ops, func(a, b operation) int { return cmp.Compare(a.Call, b.Call) })
	start := time.Now()
	result, _ := search(ops)
	if result != porcupine.Ok {
		t.Errorf("a legal history of %d operations is %s, want %s", len(ops), result, porcupine.Ok)
	}
	legal := time.Since(start)
	last := ops[grants(ops)[len(grants(ops))-1]]
	last.Worker, last.Call = 9, last.Return
	start = time.Now()
	if result, _ = search(append(ops, last)); result != porcupine.Illegal {
		t.Errorf("one with a second holder at its end is %s, want %s", result, porcupine.Illegal)
	}
	illegal := time.Since(start)
	t.Logf("%d operations: %v if legal, %v if not",
		len(ops), legal.Round(time.Millisecond), illegal.Round(time.Millisecond))
}

func TestDrawingsCanBeMade(t *testing.T) {
	_, info := search(legalHistory(rand.New(rand.NewPCG(1, 2)), 5))
	name, found := strings.CutPrefix(draw[operation](info, t.TempDir()), "see ")
	if drawn, err := os.Stat(name); !found || err != nil || drawn.Size() == 0 {
		t.Errorf("the drawing %q: %v, %v; want a file that is not empty", name, drawn, err)
	}
	if said := draw[operation](info, name); !strings.HasPrefix(said, "no drawing: ") {
		t.Errorf("drawing into a folder that is none: %q, want that there is no drawing, and why", said)
	}
}
