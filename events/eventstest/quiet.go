package eventstest

// Quiet is a logger of a plain ZooKeeper client that keeps its remarks out of a test's
// output.
type Quiet struct{}

// Printf prints nothing.
func (Quiet) Printf(string, ...any) {}
