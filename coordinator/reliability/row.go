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
