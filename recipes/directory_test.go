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
	numbered           = 4    // the bits above are the number
	onceOurs directory = 0x80 // its data are ours, or were
)

func (d directory) data() directory { return d & dataMask }

// identity is the number.
func (d directory) identity() uint8 { return uint8(d &^ onceOurs >> numbered) }

func (d directory) ours() bool { return d.data() >= dataMarker }

func (d directory) with(data directory) directory {
	if data >= dataMarker {
		d |= onceOurs
	}
	return d&^dataMask | data
}

// says is what the data are to whoever reads them. A node's zxid is 1 + its index.
func (d directory) says() DirectoryData {
	return DirectoryData{Ours: d.ours(), Floor: int64(d.floor() + 1)}
}

// floor returns the node that the floor names, or noNode.
func (d directory) floor() uint8 {
	if d.data() < dataFloor {
		return noNode
	}
	return uint8(d.data() - dataFloor)
}

// born makes the next directory, by one of us or by somebody else.
func (w *world) born(ours bool) { w.commit(w.past[0], w.unborn(ours)) }

// unborn is the next directory.
func (w *world) unborn(ours bool) directory {
	w.births++
	w.base = w.next
	d := directory(w.births)<<numbered | dataTheirs
	if ours {
		d = d.with(dataMarker)
	}
	return d
}

// A knowledge is what a client believes of the directory: which one it takes for one
// of ours, or 0, and which one it has been shown last.
type knowledge uint8

func knows(ours, shown uint8) knowledge { return knowledge(ours | shown<<numbered) }

// book is what the session keeps of it.
func (k knowledge) book() DirectoryBook { return DirectoryBook{czxid: int64(k.ours())} }

func (k knowledge) ours() uint8  { return uint8(k) & 0xf }
func (k knowledge) shown() uint8 { return uint8(k) >> numbered }

// saw shows a session which directory there is. It reports whether the data could tell it something new.
func (w *world) saw(c int, d directory) (unknown bool) {
	book, unknown := w.clients[c].knows.book().Saw(int64(d.identity()), 0, int32(len(magic)))
	w.learn(c, d, book)
	return unknown
}

// read shows a session the data of a directory as well.
func (w *world) read(c int, d directory) {
	w.saw(c, d)
	w.learn(c, d, w.clients[c].knows.book().Read(d.says(), int64(d.identity())))
}

func (w *world) learn(c int, d directory, b DirectoryBook) {
	w.each(c, func(_ int, cl *client) { cl.knows = knows(uint8(b.Writable()), d.identity()) })
}

// overwrites notes if a client sets the directory's data and should not. It does so if it takes the directory for one of ours.
// That knowledge may be old, once: of a new directory a client hears with the first
// answer. What is written over data that somebody put into a directory of ours is not
// held against it either, for data is not read again each time.
func (e *environment) overwrites(w *world, cl *client) {
	d, ours := w.dirs[0], cl.knows.ours()
	known := cl.knows.shown() == d.identity()
	if ours == d.identity() {
		known = d&onceOurs == 0
	}
	if d.data() == dataTheirs && known && e.bad == "" {
		e.bad = overwrote
	}
}

// A shell is how requests are carried out that write or read the directory's data:
// well, or with a seeded bug.
type shell uint8

const (
	shellApart       shell = iota + 1 // writes the floor after the delete, not with it
	shellNumbers                      // the same, and names the node by its number
	shellUnwatched                    // looks whether the next one stands and does not watch it
	shellCounts                       // counts the nodes after the create, not with it
	shellKeepsWord                    // leaves none, but remembers within the session that the writer has let go
	shellPlaceFirst                   // gives its place up, and takes its permits then
	shellReadsEarly                   // reads the record, and claims then
	shellCancelsSent                  // says that a create was not made though it was
	// Of multi-locks.
	shellTwoTransactions // creates one node after the other
	shellClaimsOne       // claims the first node
	shellOneAnew         // makes one node anew where it should make all
)

// numberOf is a node's number in the directory, which begins anew with each one.
func (w *world) numberOf(id uint8) uint8 {
	if id >= w.base {
		return id - w.base
	}
	return id
}
