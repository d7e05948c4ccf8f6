package coordtest

import (
	"testing"

	"github.com/zkgrant/zkgrant/coordinator"
)

// Must ends the test if something fails that the test arranges, and does not look at.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// End releases the acquisition, and waits until its node has gone.
func End(a *coordinator.Acquisition) {
	a.Release()
	<-a.Done()
}
