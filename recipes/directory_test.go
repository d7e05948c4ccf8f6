package recipes

// A directory is what a snapshot has of the locks' directory: which one it is, and
// its data. It is 0 if there is none. Directories that are reaped and made again are
// told apart by their number, as real ones are by the zxid that created them.
type directory uint8

const (
	dataTheirs directory = iota + 1 // somebody's, or none at all
	dataMarker                      // ours
	dataFloor                       // ours, and the floor is node 0; node 1 is one more

	dataMask directory = 0xf
	numbered           = 4 // the bits above are the number
	ourBirth directory = 0x80
)

func (d directory) data() directory { return d & dataMask }

// identity is the number, and whether it was made by one of us.
func (d directory) identity() uint8 { return uint8(d >> numbered) }

func (d directory) ours() bool { return d.data() >= dataMarker }

func (d directory) with(data directory) directory { return d&^dataMask | data }

// floor returns the node that the floor names, or noNode.
func (d directory) floor() uint8 {
	if d.data() < dataFloor {
		return noNode
	}
	return uint8(d.data() - dataFloor)
}

// born makes the next directory, by one of us or by somebody else.
func (w *world) born(ours bool) {
	w.births++
	d := directory(w.births)<<numbered | dataTheirs
	if ours {
		d = ourBirth | d.with(dataMarker)
	}
	w.base = w.next
	w.commit(w.past[0], d)
}

// A knowledge is what a client believes of the directory: which one it takes for one
// of ours, or 0, and which one it has been shown last.
type knowledge uint8

func knows(ours, shown uint8) knowledge { return knowledge(ours | shown<<numbered) }

func (k knowledge) ours() uint8  { return uint8(k) & 0xf }
func (k knowledge) shown() uint8 { return uint8(k) >> numbered }

// learn takes what an answer shows of the directory: which one it is, and perhaps its
// data. What was known of another one is forgotten.
func (e *environment) learn(w *world, c int, d directory, data bool) {
	id := d.identity()
	ours := w.clients[c].knows.ours()
	switch {
	case e.shell == shellRemembers && ours != 0:
	case ours != id:
		ours = 0
		if data && d.ours() {
			ours = id
		}
	case data && !d.ours():
		ours = 0
	}
	w.each(c, func(_ int, cl *client) { cl.knows = knows(ours, id) })
}

// writes tells whether a client writes the directory's data along with what it does,
// and notes if it should not. It does so if it takes the directory for one of ours.
// That knowledge may be old, once: of a new directory a client hears with the first
// answer. What is written over data that somebody put into a directory of ours is not
// held against it either, for data is not read again each time.
func (e *environment) writes(w *world, cl *client) bool {
	d, ours := w.dirs[0], cl.knows.ours()
	if ours == 0 && e.shell != shellMarksAll {
		return false
	}
	if d.data() == dataTheirs && ours != d.identity() && (ours == 0 || cl.knows.shown() == d.identity()) && e.bad == "" {
		e.bad = overwrote
	}
	return true
}

// A shell is how requests are carried out that write or read the directory's data:
// well, or with a seeded bug.
type shell uint8

const (
	shellMarksAll     shell = iota + 1 // writes a marker whatever the data
	shellRemembers                     // does not notice another directory
	shellApart                         // writes the floor after the delete, not with it
	shellNumbers                       // the same, and names the node by its number
	shellAnyFloor                      // takes any floor for that of the node asked about
	shellUnwatched                     // looks whether the next one stands and does not watch it
	shellCounts                        // counts the nodes after the create, not with it
	shellGivesUp                       // takes a delete for done that failed as a whole because a floor may not be written
	shellUnchecked                     // makes a read node in the place of a write node that may be gone
	shellKeepsFloor                    // leaves a floor though a reader may have taken the writer's place
	shellKeepsWord                     // leaves none, but remembers within the session that the writer has let go
	shellAnyWord                       // remembers whoever of the session deletes a node as one that held
	shellEarlyWord                     // remembers a holder that lets go as gone at once
	shellAnySize                       // enters without a check of the size
	shellOnePlace                      // looks for what it entered with in the queue only
	shellPlaceFirst                    // gives its place up, and takes its leases then
	shellKeepsPlace                    // enters, and does not give its place up
	shellAllOrNothing                  // gives leases back in one transaction, which fails if one is gone
	shellFirstLease                    // gives the first of its leases back, and no more
	shellReadsEarly                    // reads the record, and claims then
	shellAllTheirs                     // takes any record for somebody else's
	shellOverwrites                    // writes its own record over one that it finds
	shellTakesForGone                  // takes a record in the way of its own for the end of its node
	shellTwoSteps                      // gives its node up, and removes the record then
	shellAllClaim                      // takes any node of its session for its own, of a lock that is one node
	shellUndated                       // believes an answer of an earlier connection
	shellCancelsSent                   // says that a create was not made though it was
	shellJoinsLate                     // serves a list request by a listing that was read before it
	// Of multi-locks.
	shellTwoTransactions // creates one node after the other
	shellClaimsOne       // claims the first node
	shellAllNodesOrNone  // gives up when one of the nodes to be deleted is gone
	shellTakenForWhole   // takes a part of its nodes for all
	shellAloneInOne      // takes one empty queue for all
	shellOneAnew         // makes one node anew where it should make all
)

// numberOf is a node's number in the directory, which begins anew with each one.
func (w *world) numberOf(id uint8) uint8 {
	if id >= w.base {
		return id - w.base
	}
	return id
}

// floorIs tells whether a directory's floor names the node.
func (e *environment) floorIs(w *world, d directory, id uint8) bool {
	switch {
	case d.floor() == noNode:
		return false
	case e.shell == shellAnyFloor:
		return true
	case e.shell == shellNumbers:
		return d.floor() == w.numberOf(id)
	default:
		return d.floor() == id
	}
}
