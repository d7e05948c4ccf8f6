package coordtest

import "github.com/zkgrant/zkgrant/coordinator"

// End releases the acquisition, and waits until its node has gone.
func End(a *coordinator.Acquisition) {
	a.Release()
	<-a.Done()
}
