package duty

// End is how the work under a lock has ended.
type End int

// The ends of work. The zero End is Broken: work that is not known to be done counts as
// not done.
const (
	Broken   End = iota // it was begun, and ended by a loss or a failure of zkgrant
	Done                // it has ended by itself, or because it was asked to
	NotBegun            // it was never begun
)

// Releases reports whether to release the lock, which removes the record of an earlier
// crash. crashed is whether there is such a record. Otherwise the lock is abandoned, as
// by a holder that has crashed.
func (e End) Releases(crashed bool) bool { return e == Done || e == NotBegun && !crashed }
