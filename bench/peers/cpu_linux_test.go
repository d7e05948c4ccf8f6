package peers

import (
	"os"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestProcessorTimeGrows lets the process compute until its time has grown.
func TestProcessorTimeGrows(t *testing.T) {
	before, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	eventstest.Eventually(t, "the processor time is above "+before.String(), func() bool {
		for start := time.Now(); time.Since(start) < time.Millisecond; {
			continue // computing
		}
		after, err := processorTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return after > before
	})
}

func TestProcessorTimeOfNobody(t *testing.T) {
	if _, err := processorTime(-1); err == nil {
		t.Error("a process that does not exist has computed")
	}
}
