package main

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyTheStoreThatComparesTokensIsRight(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		eventstest.ErrorIs(t, run(t.Context(), p, p.ZK), nil, "the end of the program")
		p.Must(t, "is its lock valid? false", "refuses: token", "the store that compares tokens has 70, the store that does not has 20")
	})
}

// The store refuses exactly those tokens that are older than one it has seen.
func TestTheStoreRefusesOldTokens(t *testing.T) {
	s := &store{fenced: true}
	var stale *staleError
	for _, test := range []struct {
		token int64
		write bool
		stale bool
	}{{5, true, false}, {5, true, false}, {4, true, true}, {7, false, false}, {5, true, true}, {6, false, true}, {7, true, false}} {
		var err error
		if test.write {
			err = s.write(test.token, int(test.token))
		} else {
			_, err = s.read(test.token)
		}
		eventstest.Expect(t, errors.As(err, &stale) == test.stale,
			"token %d, write %t: %v; refused should be %t", test.token, test.write, err, test.stale)
	}
	eventstest.Equal(t, s.balance, 7, "balance")
}
