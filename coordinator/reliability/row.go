package reliability

// Row is the short name of a measured property.
type Row string

// The measured properties.
const (
	RowPartition     Row = "partition"
	RowStaleFollower Row = "stale follower"
	RowTwoHolders    Row = "two holders"
	RowSpuriousLost  Row = "spurious lost"
	RowOrphans       Row = "orphans"
	RowWedged        Row = "wedged"
	RowContinued     Row = "continued"
	RowStaleWrites   Row = "stale writes"
	RowMuteServer    Row = "mute server"
	RowLeaks         Row = "leaks"
	RowHistories     Row = "histories"
	RowFault         Row = "fault"
)

// Rows returns all properties in their order in FIGURES.md, with their goals.
func Rows() []struct {
	Row            Row
	Property, Goal string
} {
	return []struct {
		Row            Row
		Property, Goal string
	}{
		{RowPartition, "A silent partition longer than T: Lost and the next holder's Grant", "Lost first in every trial, by at least T/25"},
		{RowStaleFollower, "A holder on a follower that has lost its leader", "no overlap; Lost before the real expiry in every trial"},
		{RowTwoHolders, "Two valid holders at the same time", "0"},
		{RowSpuriousLost, "Locks lost without need, T = 10 s: short outages, rolling restarts, killed leaders", "0"},
		{RowOrphans, "Nodes left or doubled when a frame is lost, at every frame boundary", "0"},
		{RowWedged, "Waiters without a lock after everything has healed", "0"},
		{RowContinued, "A process halted beyond T and continued: the time until Lost", "at most 5 ms (p99), and Valid is never wrong"},
		{RowStaleWrites, "Accepted writes of past holders", "0 with Txn, and 0 where tokens are compared"},
		{RowMuteServer, "Reconnecting past a server that accepts connections and says nothing", "at most T/3"},
		{RowLeaks, "What 10,000 locks leave that were acquired, cancelled or expired", "nothing, and no more watches than live predecessors"},
		{RowHistories, "Recorded histories, checked by the model of a fenced lock", "all legal"},
		{RowFault, "Other faults of real servers", "no two holders, and no stuck waiter"},
	}
}
