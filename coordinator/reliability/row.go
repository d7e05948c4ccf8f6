package reliability

// Row is the short name of a measured property.
type Row string

// The rows of the table.
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

// Rows returns all rows in the order of the table, with what they measure and their
// goals.
func Rows() []struct {
	Row            Row
	Property, Goal string
} {
	return []struct {
		Row            Row
		Property, Goal string
	}{
		{RowPartition, "silent partition longer than T: Lost against the next holder's Grant", "before it in every trial, by T/25 at least"},
		{RowStaleFollower, "holder behind a follower that has lost its leader", "no overlap; Lost before the real expiry in every trial"},
		{RowTwoHolders, "two valid holders at once", "0"},
		{RowSpuriousLost, "Lost without need, T = 10 s: short outage, rolling restart, leader killed", "0"},
		{RowOrphans, "nodes left or doubled after a frame was lost, at every frame boundary", "0"},
		{RowWedged, "waiters that got nothing after everything had healed", "0"},
		{RowContinued, "process halted beyond T and continued: until Lost is delivered", "p99 at most 5 ms; Valid never wrong"},
		{RowStaleWrites, "writes of a past holder that were accepted", "0 with Txn, and where tokens are compared"},
		{RowMuteServer, "reconnect past a server that accepts and says nothing", "at most T/3"},
		{RowLeaks, "left after 10,000 acquired, cancelled and expired", "nothing; no more watches than live predecessors"},
		{RowHistories, "recorded histories against the model of a fenced mutex", "all legal"},
		{RowFault, "other faults of real servers", "no two holders, no waiter wedged"},
	}
}
