package recipes

// This file is about directories whose sequence numbers are almost used up. A contender
// that deletes a node with a late number (see [events.Late]) also deletes the directory,
// if we have made it and nothing else is in it. The next contender makes it again, as
// after the servers have removed an empty container, and numbers begin with 0. Tokens are
// zxids and keep growing, and so do floors, which are zxids, too.
//
// A server does not delete a directory with a node in it. So a contender that has queued
// up meanwhile keeps the directory, and the next one that leaves tries again. In a
// directory with kazoo's names the same transaction makes the directory again, because
// kazoo's locks make theirs only once.

// Renewal is what was read of a directory whose numbers are almost used up.
type Renewal struct {
	Dir      string
	Version  int32
	Data     DirectoryData
	Children int32
	Own      string // the own node in the directory, which is deleted with it, or ""
	Stays    bool   // the directory is to be created again at once
}

// Renews reports whether a delete also tries to delete the directory, if the number of
// its node is late.
func (e Errand) Renews(late bool) bool { return late && e.Op == OpDelete && !e.Clean }

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
