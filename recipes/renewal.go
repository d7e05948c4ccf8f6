package recipes

// This file is about directories whose sequence numbers come to their end. A contender that removes a node with a late number (see
// [events.Late]) removes the directory as well, if it is one that we have made and there is nothing else in it. The next contender makes
// it anew, as it does when the servers have removed an empty container, and numbers begin at 0. Tokens are zxids and go on growing, and
// so do floors, which are named by them.
//
// A server refuses to delete a directory with a node in it, so a contender that has queued up meanwhile keeps it. The next one that leaves
// tries again. Where contenders bear kazoo's names the directory is made anew in the same transaction: kazoo's locks make theirs once.

// Renewal is what has been read of a directory whose numbers come to their end.
type Renewal struct {
	Data     DirectoryData
	Children int32
	Own      bool // the own node is in it, and is to go with it
	Stays    bool // it is to be made anew at once
}

// Renews reports whether a delete tries to remove the directory, too, if the number of its node is late.
func (e Errand) Renews(late bool) bool { return late && e.Op == OpDelete && !e.Clean }

// Plan returns what is to be tried, or none. The directory is deleted on condition that it is of the version that was read. If that is
// refused nothing has changed, and the own node is deleted by itself.
func (r Renewal) Plan() (p Plan) {
	others := r.Children
	if r.Own {
		others--
		p = p.and(Operation{Do: DoDelete, On: OnOwn})
	}
	if !r.Data.Ours || others > 0 {
		return Plan{}
	}
	p = p.and(Operation{Do: DoDelete, On: OnDirectory})
	if r.Stays {
		p = p.and(Operation{Do: DoCreate, On: OnDirectory, With: WithMarker})
	}
	return p
}
