package recipes

// A directory is the locks' directory in a snapshot: its identity and its data. It is 0
// if there is none. A directory that is reaped and created again gets another number, as
// a real one gets another zxid.
type directory uint8

const (
	dataTheirs directory = iota + 1 // another program's, or empty
	dataMarker                      // ours
	dataFloor                       // ours, and the floor is node 0; node 1 is one more

	dataMask directory = 0xf
	numbered           = 4    // the bits above are the number
	onceOurs directory = 0x80 // its data are ours, or were
)

func (d directory) data() directory { return d & dataMask }

func (d directory) identity() uint8 { return uint8(d &^ onceOurs >> numbered) }

func (d directory) ours() bool { return d.data() >= dataMarker }

func (d directory) with(data directory) directory {
	if data >= dataMarker {
		d |= onceOurs
	}
	return d&^dataMask | data
}

// says returns the data as a reader parses them. A node's zxid is 1 + its index.
func (d directory) says() DirectoryData {
	return DirectoryData{Ours: d.ours(), Floor: int64(d.floor() + 1)}
}

func (d directory) floor() uint8 {
	if d.data() < dataFloor {
		return noNode
	}
	return uint8(d.data() - dataFloor)
}

// born creates the next directory, for a session of ours or for another process.
func (w *world) born(ours bool) { w.commit(w.past[0], w.unborn(ours)) }

func (w *world) unborn(ours bool) directory {
	w.births++
	w.virgin = true
	d := directory(w.births)<<numbered | dataTheirs
	if ours {
		d = d.with(dataMarker)
	}
	return d
}

// A knowledge is what a client believes about the directory: which one it takes for one
// of ours, or 0, and which one it saw last.
type knowledge uint8

func knows(ours, shown uint8) knowledge { return knowledge(ours | shown<<numbered) }

func (k knowledge) book() DirectoryBook { return DirectoryBook{czxid: int64(k.ours())} }

func (k knowledge) ours() uint8  { return uint8(k) & 0xf }
func (k knowledge) shown() uint8 { return uint8(k) >> numbered }

// saw shows a session which directory exists, and reports whether the data may contain
// something new for it.
func (w *world) saw(c int, d directory) (unknown bool) {
	book, unknown := w.clients[c].knows.book().Saw(int64(d.identity()), 0, int32(len(magic)))
	w.learn(c, d, book)
	return unknown
}

// read also shows a session the data of a directory.
func (w *world) read(c int, d directory) {
	w.saw(c, d)
	w.learn(c, d, w.clients[c].knows.book().Read(d.says(), int64(d.identity())))
}

func (w *world) learn(c int, d directory, b DirectoryBook) {
	w.each(c, func(_ int, cl *client) { cl.knows = knows(uint8(b.Writable()), d.identity()) })
}

// overwrites notes a violation if a client sets the directory's data and should not. A
// client sets them if it takes the directory for one of ours. That knowledge may be
// outdated, but only once: the first answer shows the client a new directory. Another
// program may write data into a directory of ours. A client that overwrites those is not
// to blame, because it does not read the data again each time.
func (e *environment) overwrites(w *world, cl *client) {
	d, ours := w.dirs[0], cl.knows.ours()
	known := cl.knows.shown() == d.identity()
	if ours == d.identity() {
		known = d&onceOurs == 0
	}
	if d.data() == dataTheirs && known {
		e.fails(overwrote)
	}
}
