package eventstest

// Quiet is a logger for a plain ZooKeeper client that keeps its messages out of a test's
// output.
type Quiet struct{}

// Printf prints nothing.
func (Quiet) Printf(string, ...any) {}
