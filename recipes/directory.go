package recipes

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// This file is about what a session knows of a directory of locks: what the directory's
// data say, which holders of its own have left, and when the directory is renewed. Each
// book is a small comparable value. The session keeps one for each directory, and the
// explorer keeps the same in its worlds.

// The data of a directory that this library made say so: a line with a magic word, and
// perhaps a second line with a floor. A floor is the zxid that created the node of a
// holder that has left, so no older contender is left. The floor has that zxid and not
// the node's number: an empty directory is removed, and the next one begins with number 0
// again.
const (
	magic     = "zkgrant\n"
	floorMark = "floor 0x"
)

// DirectoryData is the parsed data of a directory.
type DirectoryData struct {
	Ours  bool  // the directory is ours
	Floor int64 // the zxid of the floor's node; 0 is no floor
}

// ParseDirectoryData parses the data of a directory.
func ParseDirectoryData(data []byte) DirectoryData {
	rest, ours := bytes.CutPrefix(data, []byte(magic))
	if !ours {
		return DirectoryData{}
	}
	text, marked := strings.CutPrefix(string(rest), floorMark)
	if !marked {
		return DirectoryData{Ours: true}
	}
	czxid, err := strconv.ParseInt(strings.TrimSuffix(text, "\n"), 16, 64)
	if err != nil {
		return DirectoryData{Ours: true} // a later form: no floor that we know of
	}
	return DirectoryData{Ours: true, Floor: czxid}
}

// Marker returns the data of a directory of ours without a floor. The caller must not
// change them.
func Marker() []byte { return marker }

//nolint:gochecknoglobals // never written
var marker = []byte(magic)

// floorData returns the data of a directory of ours with a floor.
func floorData(czxid int64) []byte { return fmt.Appendf(nil, "%s%s%x\n", magic, floorMark, czxid) }

// Names reports whether the floor is the node that the zxid created. The zxid is 0 if
// nothing is known of the node.
func (d DirectoryData) Names(czxid int64) bool {
	return czxid != 0 && d.Floor == czxid
}

// DirectoryBook is what a session knows of one directory. The zero value knows nothing.
//
// Data are written only to a directory that was ours when it was last seen. A directory is
// identified by the zxid that created it. The knowledge ends when an answer shows another
// directory with the same name.
//
// That can be too late, because a server compares versions of data and not that zxid:
//
//  1. The servers remove our directory, which is empty.
//  2. Another program makes a directory with the same name and data of its own.
//  3. Our next create writes the marker over these data, once. The answer shows the other
//     directory, but from then on its data say that it is ours.
type DirectoryBook struct {
	czxid     int64 // of a directory of ours; 0: it is not ours, or that is not known
	closed    bool  // its data may not be written
	there     bool  // it was seen, whoever made it
	contended bool  // it had more than one node the last time
	children  int32 // how many nodes it had then
}

// New reports whether nothing is known of the directory, so there may be none.
func (b DirectoryBook) New() bool { return b == DirectoryBook{} }

// Writable returns the zxid of the directory if its data may be written, or 0.
func (b DirectoryBook) Writable() (czxid int64) {
	if b.closed {
		return 0
	}
	return b.czxid
}

// Markable is [DirectoryBook.Writable] for a create. It also returns 0 if the create
// cannot expect to be alone.
func (b DirectoryBook) Markable() (czxid int64) {
	if b.contended || b.closed {
		return 0
	}
	return b.czxid
}

// Children returns how many nodes the directory had when it was last seen, and 0 if it
// was not seen.
func (b DirectoryBook) Children() int { return int(b.children) }

// Saw notes a Stat of the directory. It reports whether the data could contain something
// new.
func (b DirectoryBook) Saw(czxid int64, children, dataLength int32) (_ DirectoryBook, unknown bool) {
	if b.czxid != 0 && b.czxid != czxid {
		b = DirectoryBook{}
	}
	b.there, b.contended, b.children = true, children > 1, children
	return b, b.czxid == 0 && !b.closed && int(dataLength) >= len(magic)
}

// Fewer notes that so many nodes have left.
func (b DirectoryBook) Fewer(nodes int32) DirectoryBook {
	b.children = max(0, b.children-nodes)
	b.contended = b.children > 1
	return b
}

// Read notes the directory's data. Another program may have written to a directory of
// ours.
func (b DirectoryBook) Read(data DirectoryData, czxid int64) DirectoryBook {
	if !data.Ours {
		return DirectoryBook{there: true}
	}
	b.czxid = czxid
	return b
}

// Shut notes that the directory's data may not be written.
func (b DirectoryBook) Shut() DirectoryBook {
	b.closed = true
	return b
}

// LeaverBook records which of a session's own holders was the last to leave a directory.
// N names a node.
type LeaverBook[N comparable] struct {
	left    N // of the last holder that has let go
	removed N // of the last holder that has let go and whose node is gone
}

// Leaves notes that a contender gives up its node. Only a holder does so with a floor.
func (b LeaverBook[N]) Leaves(node N, floor bool) LeaverBook[N] {
	if floor {
		b.left = node
	}
	return b
}

// Removed notes that the node is gone.
func (b LeaverBook[N]) Removed(node N, floor bool) LeaverBook[N] {
	if floor {
		b.removed = node
	}
	return b
}

// Free reports whether no contender is ahead of one that has seen the node past go, with
// next ahead of that. If past was a holder of ours, no contender was older. If next was a
// holder of ours, and its node is gone, only past was left.
func (b LeaverBook[N]) Free(past, next N) bool {
	return b.left == past || b.removed == next
}

// Renewal is what was read of a directory whose sequence numbers are almost used up. A
// contender that deletes a node with a late number (see [events.Late]) also deletes the
// directory, if we have made it and nothing else is in it. The next contender makes it
// again, as after the servers have removed an empty container, and numbers begin with 0.
// Tokens are zxids and keep growing, and so do floors, which are zxids, too.
//
// A server does not delete a directory with a node in it. So a contender that has queued
// up meanwhile keeps the directory, and the next one that leaves tries again. In a
// directory with kazoo's names the same transaction makes the directory again, because
// kazoo's locks make theirs only once.
type Renewal struct {
	Dir      string
	Version  int32
	Data     DirectoryData
	Children int32
	Own      string // the own node in the directory, which is deleted with it, or ""
	Stays    bool   // the directory is to be created again at once
}

// Renews reports whether the delete of a node with a late number also tries to delete the
// directory.
func (e *Errand) Renews() bool { return e.Op == OpDelete && !e.Clean }

// Plan returns the transaction to try, or no plan. The directory is deleted only in the
// version that was read. If that is refused, nothing has changed, and the own node is
// deleted separately.
func (r Renewal) Plan() (p Plan) {
	others := r.Children
	if r.Own != "" {
		others--
		p = append(p, remove(OnOwn, r.Own))
	}
	if !r.Data.Ours || others > 0 {
		return nil
	}
	p = append(p, remove(OnDirectory, r.Dir).of(r.Version))
	if r.Stays {
		p = append(p, create(OnDirectory, r.Dir, marker, Persistent))
	}
	return p
}
