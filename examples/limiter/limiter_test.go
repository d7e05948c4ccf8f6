package main

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zkgrant/zkgrant/examples/internal/stagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The limit is reached, raised, reached again, and never exceeded. Half the time one of the instances is cut off, for longer than its
// session lasts.
func TestTheLimitIsReachedAndNeverExceeded(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.Accidents(t, 2*time.Minute, 15*time.Second, func(ctx context.Context) error {
			return run(ctx, p, p.ZK, options{limit: 4, raised: 6, raise: time.Minute})
		})
		p.Must(t, "there are 6 permits now", "at most 6 permits in use")
		if begun := p.Count("a big job begins"); begun < 20 {
			t.Errorf("%d big jobs were begun, want at least 20: they are kept out:\n%s", begun, p)
		}
		p.Empty(t, jobsLock+"/leases", jobsLock+"/locks")
	})
}

// Until the limit is raised, the lower limit holds.
func TestTheLowerLimitHoldsBeforeTheRaise(t *testing.T) {
	stagetest.Bubble(t, func(t *testing.T, p *stagetest.Play) {
		p.For(t, 20*time.Second, func(ctx context.Context) error {
			return run(ctx, p, p.ZK, options{limit: 4, raised: 6, raise: time.Hour})
		})
		p.Must(t, "at most 4 permits in use")
	})
}

// More permits than the limit are noticed.
func TestMoreThanTheLimitIsNoticed(t *testing.T) {
	u := &usage{limit: 4}
	done, err := u.begin(3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.begin(2); err == nil {
		t.Errorf("a fifth permit of 4: %v, want it noticed", err)
	}
	done()
	if _, err := u.begin(3); err != nil {
		t.Errorf("three permits of 4: %v, want them granted", err)
	}
}
