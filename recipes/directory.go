package recipes

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// This file is about what a session knows about a lock's directory: what its data say,
// which of the session's own holders have left it, and when it is renewed. Each book is a
// small comparable value. The session keeps one per directory, and the explorer keeps the
// same ones in its worlds.

// The data of a directory that this library created are a line with a magic word and,
// possibly, a second line with a floor. A floor is the zxid that created the node of a
// holder that has left: no contender older than that one remains. It is not the node's
// number, because numbers start again at 0 when an empty directory was removed.
const (
	magic     = "zkgrant\n"
	floorMark = "floor 0x"
)

// DirectoryData is the parsed data of a directory.
type DirectoryData struct {
	Ours  bool  // the directory is ours
	Floor int64 // the zxid that created the floor's node; 0: no floor
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
		return DirectoryData{Ours: true} // a newer format: treat as no floor
	}
	return DirectoryData{Ours: true, Floor: czxid}
}

// Marker returns the data of a directory of ours that has no floor. The caller must not
// modify them.
func Marker() []byte { return marker }

//nolint:gochecknoglobals // never written
var marker = []byte(magic)

// floorData returns the data of a directory of ours that has a floor.
func floorData(czxid int64) []byte { return fmt.Appendf(nil, "%s%s%x\n", magic, floorMark, czxid) }

// Names reports whether the floor is the node created by the zxid, which is 0 if nothing
// is known about the node.
func (d DirectoryData) Names(czxid int64) bool {
	return czxid != 0 && d.Floor == czxid
}

// DirectoryBook is what a session knows of one directory. The zero value knows nothing.
//
// Data are written only to a directory that was ours when it was last seen. A directory
// is identified by the zxid that created it: an answer about another directory with the
// same name resets the book.
//
// That can be too late, because a server compares versions of data and not that zxid:
//
//  1. The servers remove our directory, which is empty.
//  2. Another program makes a directory with the same name and data of its own.
//  3. Our next create writes the marker over these data, once. The answer shows the other
//     directory, but from then on its data say that it is ours.
type DirectoryBook struct {
	czxid    int64 // of a directory of ours; 0: it is not ours, or that is not known
	closed   bool  // its data may not be written
	there    bool  // it was seen, whoever created it
	children int32 // how many nodes it had when last seen
}

// New reports whether nothing is known about the directory, which may not exist.
func (b DirectoryBook) New() bool { return b == DirectoryBook{} }

// Writable returns the zxid of the directory if its data may be written, or 0.
func (b DirectoryBook) Writable() (czxid int64) {
	if b.closed {
		return 0
	}
	return b.czxid
}

// markable is like [DirectoryBook.Writable], for a create. It also returns 0 if the
// created node is not expected to be alone.
func (b DirectoryBook) markable() (czxid int64) {
	if b.children > 1 || b.closed {
		return 0
	}
	return b.czxid
}

// Children returns how many nodes the directory had when last seen, or 0 if it never was.
func (b DirectoryBook) Children() int { return int(b.children) }

// Saw notes a Stat of the directory. unknown reports whether the data may contain
// something new.
func (b DirectoryBook) Saw(czxid int64, children, dataLength int32) (_ DirectoryBook, unknown bool) {
	if b.czxid != 0 && b.czxid != czxid {
		b = DirectoryBook{}
	}
	b.there, b.children = true, children
	return b, b.czxid == 0 && !b.closed && int(dataLength) >= len(magic)
}

// Fewer notes that this many nodes are gone.
func (b DirectoryBook) Fewer(nodes int32) DirectoryBook {
	b.children = max(0, b.children-nodes)
	return b
}

// Read notes the directory's data. A directory of ours may since have been written by
// another program.
func (b DirectoryBook) Read(data DirectoryData, czxid int64) DirectoryBook {
	if !data.Ours {
		return DirectoryBook{there: true, children: b.children}
	}
	b.czxid = czxid
	return b
}

// shut notes that the directory's data may not be written.
func (b DirectoryBook) shut() DirectoryBook {
	b.closed = true
	return b
}

// LeaverBook records which of a session's own holders was the last to leave a directory.
// N identifies a node.
type LeaverBook[N comparable] struct {
	left    N // of the last holder that left
	removed N // of the last holder that left and whose node is known to be gone
}

// Leaves notes that a contender gives up its node. Only holders leave a floor.
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

// Free reports whether no contender is ahead of one whose blocker past is gone, where
// next was ahead of past. If past was a holder of ours, no older contender was left. If
// next was a holder of ours and its node is gone, past was the last one.
func (b LeaverBook[N]) Free(past, next N) bool {
	return b.left == past || b.removed == next
}

// Renewal is what was read of a directory whose sequence numbers are almost used up. A
// contender that deletes a node with a late number (see [events.Late]) also deletes the
// directory, if it is ours and otherwise empty. The next contender creates it again, as
// after the servers removed an empty container, and numbers start again at 0. Tokens and
// floors are zxids, so they keep growing.
//
// Servers never delete a directory that has a node in it. So if a contender has queued up
// in the meantime, the directory stays, and the next contender to leave tries again. A
// directory with kazoo's names is created again in the same transaction, because kazoo's
// locks create theirs only once.
type Renewal struct {
	Dir      string
	Version  int32
	Data     DirectoryData
	Children int32
	Own      string // the contender's node in the directory, deleted along with it, or ""
	Stays    bool   // create the directory again at once
}

// Renews reports whether the delete of a node with a late number also tries to delete the
// directory.
func (e *Errand) Renews() bool { return e.Op == OpDelete && !e.Clean }

// Plan returns the transaction to try, or none. It deletes only the version of the
// directory that was read. If it is refused, nothing has changed, and the contender's
// node is deleted separately.
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
