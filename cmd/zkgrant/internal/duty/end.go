package duty

// End is how the work under a lock has ended.
type End int

// The ends of work. The zero End is Broken: what is not known to be done is not done.
const (
	Broken   End = iota // it was begun, and ended by a loss, or by the wrapper's own failure
	Done                // it has ended by itself, or as it was asked to
	NotBegun            // nothing of it was done
)

// Releases reports whether the lock is given back as by a holder that has done its work,
// which spends the record of an earlier crash. crashed is whether there is such a record.
// Otherwise the lock is given back as by a holder that has crashed.
func (e End) Releases(crashed bool) bool { return e == Done || e == NotBegun && !crashed }
