package recipes

import (
	"container/list"
	"hash/fnv"
	"path"
	"time"
)

// This file is about directories that a session has created and left empty. Servers
// remove empty containers by themselves, but at most 10,000 a minute, and never one that
// has had no child. A session that takes locks at ever new paths creates more than that.

// The pace of deletions. Each costs a read, and a delete if the directory still exists
// and is empty. Any second overlaps at most 11 ticks, so at most 990 deletions begin in
// it.
const (
	// LeftoverAfter is how long a directory must be unused before it is deleted.
	LeftoverAfter = 5 * time.Second
	// leftoverTick is the length of a tick. Ticks follow the clock, so a late one does
	// not delay the next.
	leftoverTick = 100 * time.Millisecond
	// leftoverBurst is the maximum number of deletions per tick, and of those in
	// progress.
	leftoverBurst = 90
)

const (
	// mostLeftovers is the maximum number of known directories. Any others are left to
	// the servers.
	mostLeftovers = 1 << 14
	// mostRemoved is the maximum size of each of the two sets of paths at which a
	// directory was deleted.
	mostRemoved = 1 << 14
)

// Leftovers decides which directories a session deletes, and when. It knows only
// containers created for this session, and identifies each by the zxid that created it:
//
//   - A bare directory has not had a child yet. Servers never delete it, so bare ones are
//     deleted first. It is due if it stays bare for a while.
//   - Any other directory is due some time after the session's last contender has left
//     it.
//   - A path at which a directory was deleted may be used again. Its next directory is
//     left to the servers unless it stays bare, so that a path used now and then costs no
//     extra requests.
//
// A directory is deleted only if it is still the one that was created, and empty. Servers
// delete such directories, too, so every client must be prepared for it.
//
// The zero value is ready to use. Leftovers has no clock; its methods take the time.
type Leftovers struct {
	known map[string]*leftover // each in one of the lists
	bare  list.List            // by due
	idle  list.List            // by due
	inUse list.List            // bare ones in use, and those whose deletion is in progress

	// In use and not bare. A small map entry each, because a session that holds many
	// locks has many of them.
	used map[string]use

	removed, removedBefore map[uint64]struct{} // the hashes of paths

	tick     time.Time // the latest tick
	burst    int       // deletions begun in that tick
	underWay int
}

// leftover is one directory.
type leftover struct {
	Leftover

	due   time.Time
	users int // contenders of the session in it; one not counted costs at most a needless read
	in    *list.List
	at    *list.Element // its element in that list
}

// use is a directory in use.
type use struct {
	czxid int64
	users int32 // as in a leftover; 0: another client uses it
}

// Leftover is a directory to delete.
type Leftover struct {
	Dir   string
	czxid int64 // the zxid that created it
	Bare  bool  // it has had no child, as far as the session knows; servers keep it forever
}

// Empty reports whether no directory is known.
func (l *Leftovers) Empty() bool { return len(l.known)+len(l.used) == 0 }

// Made notes that a container was created for the session. Its parent is then in use, if
// that is known.
func (l *Leftovers) Made(dir string, czxid int64, now time.Time) {
	l.Filled(path.Dir(dir))
	l.forget(dir)
	if len(l.known)+len(l.used) >= mostLeftovers {
		l.evict()
	}
	if l.known == nil {
		l.known = map[string]*leftover{}
	}
	l.move(&leftover{Leftover: Leftover{Dir: dir, czxid: czxid, Bare: true}, due: now.Add(LeftoverAfter)},
		&l.bare)
}

// Entered notes that one more contender of the session uses the directory.
func (l *Leftovers) Entered(dir string) {
	if u, used := l.used[dir]; used {
		u.users++
		l.used[dir] = u
		return
	}
	x := l.known[dir]
	if x == nil {
		return
	}
	if x.users++; x.Bare {
		l.move(x, &l.inUse)
	} else {
		l.use(dir, x)
	}
}

// use moves the directory to those in use. The session keeps the string dir in memory
// anyway.
func (l *Leftovers) use(dir string, x *leftover) {
	x.in.Remove(x.at)
	delete(l.known, dir)
	if l.used == nil {
		l.used = map[string]use{}
	}
	l.used[dir] = use{x.czxid, int32(x.users)}
}

// Filled notes that the directory has its first child: a contender of the session, or a
// directory that the session has created.
func (l *Leftovers) Filled(dir string) {
	if l.returned(dir) {
		l.forget(dir)
	}
	if x := l.known[dir]; x != nil && x.Bare {
		x.users++ // it was not known yet when this contender entered
		l.use(dir, x)
	}
}

// Left notes that a contender of the session no longer uses the directory, whether or not
// it had a node there, or that a directory in it is gone.
func (l *Leftovers) Left(dir string, now time.Time) {
	if u, used := l.used[dir]; used {
		if u.users = max(0, u.users-1); u.users == 0 {
			delete(l.used, dir)
			l.await(&leftover{Leftover: Leftover{Dir: dir, czxid: u.czxid}}, now)
			return
		}
		l.used[dir] = u
		return
	}
	x := l.known[dir]
	if x == nil {
		return
	}
	if x.users = max(0, x.users-1); x.users == 0 {
		l.await(x, now)
	}
}

// await queues the directory until it is due.
func (l *Leftovers) await(x *leftover, now time.Time) {
	x.due = now.Add(LeftoverAfter)
	if x.Bare {
		l.move(x, &l.bare)
	} else {
		l.move(x, &l.idle)
	}
}

// Next returns a directory to delete, if one is due and the limits allow it. The caller
// must call Ended with the outcome.
func (l *Leftovers) Next(now time.Time) (_ Leftover, ok bool) {
	if tick := now.Truncate(leftoverTick); !tick.Equal(l.tick) {
		l.tick, l.burst = tick, 0
	}
	if l.burst >= leftoverBurst || l.underWay >= leftoverBurst {
		return Leftover{}, false
	}
	for _, in := range [...]*list.List{&l.bare, &l.idle} {
		if first := in.Front(); first != nil && !now.Before(first.Value.(*leftover).due) {
			x := first.Value.(*leftover)
			l.burst++
			l.underWay++
			l.move(x, &l.inUse)
			return x.Leftover, true
		}
	}
	return Leftover{}, false
}

// Bare returns up to most bare directories, due or not. It is for the end of a session.
func (l *Leftovers) Bare(most int) (all []Leftover) {
	for _, in := range [...]*list.List{&l.bare, &l.inUse} {
		for e := in.Front(); e != nil && len(all) < most; e = e.Next() {
			if x := e.Value.(*leftover); x.Bare {
				all = append(all, x.Leftover)
			}
		}
	}
	return all
}

// Wait returns the time until Next may return a directory. It returns false if that
// depends on another event.
func (l *Leftovers) Wait(now time.Time) (_ time.Duration, ok bool) {
	if l.underWay >= leftoverBurst {
		return 0, false
	}
	var due time.Time
	for _, in := range [...]*list.List{&l.bare, &l.idle} {
		if first := in.Front(); first != nil && (!ok || first.Value.(*leftover).due.Before(due)) {
			due, ok = first.Value.(*leftover).due, true
		}
	}
	if next := l.tick.Add(leftoverTick); l.burst >= leftoverBurst && due.Before(next) {
		due = next
	}
	return max(0, due.Sub(now)), ok
}

// Fate is the outcome of deleting a leftover directory.
type Fate uint8

// The fates.
const (
	FateUnknown Fate = iota // no server answered, or it rejected the request
	FateRemoved             // the session deleted the directory
	FateGone                // there is no such directory
	FateUsed                // the directory is in use
	FateOther               // it is another directory by now, or may not be deleted
)

// Judge returns whether the directory can be deleted, given its Stat. A directory that
// never had a child, but whose data were written, has another use.
func (x Leftover) Judge(s LeftoverStat) (_ Fate, remove bool) {
	switch {
	case s.Czxid != x.czxid:
		return FateOther, false
	case s.Children > 0:
		return FateUsed, false
	case s.Changes == 0 && s.Version > 0:
		return FateOther, false
	default:
		return FateUnknown, true
	}
}

// LeftoverStat is a server's Stat of a directory.
type LeftoverStat struct {
	Czxid             int64
	Children, Changes int32 // Changes counts changes of its children
	Version           int32 // of its data
}

// Ended notes the outcome of deleting x. The parent of a deleted directory may now be
// empty, too.
func (l *Leftovers) Ended(x Leftover, f Fate, now time.Time) {
	l.underWay--
	known, used := l.known[x.Dir], l.used[x.Dir]
	same := known != nil && known.czxid == x.czxid || used.czxid == x.czxid // else the session has since created another one
	switch {
	case f == FateUnknown && same && known != nil && known.users == 0:
		l.await(known, now)
	case f == FateUsed && same && known != nil:
		l.use(x.Dir, known)
	}
	if f == FateUnknown || f == FateUsed {
		return
	}
	if f == FateRemoved {
		l.remember(x.Dir)
	}
	if same || f == FateRemoved && (known == nil || !known.Bare) {
		l.forget(x.Dir)
	}
	if f != FateOther {
		l.Left(path.Dir(x.Dir), now)
	}
}

// move moves the directory to the end of the list.
func (l *Leftovers) move(x *leftover, in *list.List) {
	if x.in != nil {
		x.in.Remove(x.at)
	}
	x.in, x.at = in, in.PushBack(x)
	l.known[x.Dir] = x
}

func (l *Leftovers) forget(dir string) {
	if x := l.known[dir]; x != nil {
		x.in.Remove(x.at)
		delete(l.known, dir)
	}
	delete(l.used, dir)
}

// evict forgets a directory, preferably one that the servers will remove.
func (l *Leftovers) evict() {
	for dir := range l.used { // any one
		delete(l.used, dir)
		return
	}
	for _, in := range [...]*list.List{&l.inUse, &l.idle, &l.bare} {
		if first := in.Front(); first != nil {
			l.forget(first.Value.(*leftover).Dir)
			return
		}
	}
}

// remember notes that a directory was deleted at the path.
func (l *Leftovers) remember(dir string) {
	if len(l.removed) >= mostRemoved {
		l.removed, l.removedBefore = nil, l.removed
	}
	if l.removed == nil {
		l.removed = map[uint64]struct{}{}
	}
	l.removed[hashOf(dir)] = struct{}{}
}

// returned reports whether a directory was deleted at the path before. On a hash
// collision, a directory is merely left to the servers.
func (l *Leftovers) returned(dir string) bool {
	h := hashOf(dir)
	_, lately := l.removed[h]
	_, before := l.removedBefore[h]
	return lately || before
}

func hashOf(dir string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir))
	return h.Sum64()
}
