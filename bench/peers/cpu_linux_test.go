package peers

import (
	"os"
	"testing"
	"time"
)

// TestProcessorTimeGrows while the process computes.
func TestProcessorTimeGrows(t *testing.T) {
	before, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(10 * time.Second)
	for time.Now().Before(end) {
		after, err := processorTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if after > before {
			return
		}
	}
	t.Errorf("after 10 s of work still %v", before)
}

func TestProcessorTimeOfNobody(t *testing.T) {
	if _, err := processorTime(-1); err == nil {
		t.Error("a process that does not exist has computed")
	}
}
