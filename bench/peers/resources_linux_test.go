package peers

import (
	"os"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestProcessorTimeGrows lets the process compute until its time has grown.
func TestProcessorTimeGrows(t *testing.T) {
	before, err := ProcessorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	eventstest.Eventually(t, "the processor time is above "+before.String(), func() bool {
		for start := time.Now(); time.Since(start) < time.Millisecond; {
			continue // computing
		}
		after, err := ProcessorTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return after > before
	})
}

func TestAProcessThatDoesNotExistUsesNothing(t *testing.T) {
	if _, err := ProcessorTime(-1); err == nil {
		t.Error("a process that does not exist has computed")
	}
	if _, err := Memory(-1); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

func TestWhatThereIs(t *testing.T) {
	taken, err := Memory(os.Getpid())
	eventstest.Must(t, err)
	free, err := FreeMemory()
	eventstest.Must(t, err)
	if taken < 1<<20 || free < 1<<20 {
		t.Errorf("this process takes %d bytes and %d are left, want a MB of each at least", taken, free)
	}
	if _, err := kilobytes("/proc/meminfo", "NoSuchLine:"); err == nil {
		t.Error("a line that is not there has a value")
	}
	if n, err := Descriptors(); n < 3 || err != nil {
		t.Errorf("%d descriptors, %v; want the three that are open, and no error", n, err)
	}
}
